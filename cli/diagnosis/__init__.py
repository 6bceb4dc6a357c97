"""`nyala diagnose`: one archive for a report about a store or a cluster, without values of rows and without secrets.

`directory_contents` reads the files of a directory, `live_contents` queries a running store, `masking` removes values
from texts. `cli.diagnose_command` writes the archive.
"""
