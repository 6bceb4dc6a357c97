"""The command line: parsers and handlers of all `nyala` commands.

    __main__.main ──► parsers ──► a handler: shell, serve, cluster, tablet, fs, spark, certificates, ...

A handler imports what it runs when it is called, so that `nyala --help` loads no engine.
"""
