"""The one door to the disk: file systems, open files, pages kept in memory, files that scans may still read.

Everything opens files through `filesystem.FileSystem`: `os_filesystem` is the machine's, `memory_filesystem` a store
in memory and the one that tests crash. `file_handles` bounds the open files, `page_cache` keeps decoded pages, and
`retired_files` removes a replaced file after its last reader.
"""
