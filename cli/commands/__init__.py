"""The commands as tables (`command_line.Command`): `all_commands` has the tree, the modules beside it its branches.

The parser is built from these rows (`nyala.command_line`); the row of a command names its handler, which imports what
it needs only when it runs, so that `nyala shell` starts without Spark or the cluster.
"""
