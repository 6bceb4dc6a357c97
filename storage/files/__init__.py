"""The one door to the disk: file systems, open files, pages kept in memory, files that scans may still read."""
