"""The command line: tables and handlers of all `nyala` commands.

    __main__.main ──► commands.all_commands ──► command_line.build_parser ──► a handler: shell, serve, cluster, fs, ...

A command is a row of a table (`command_line.Command`) that names its handler; the handler's module is imported when its
command runs, so that `nyala --help` loads no engine. To add a command, add its `Command` to a table of `cli.commands`
and write the function that it names.
"""
