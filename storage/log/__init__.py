"""The write-ahead log of a tablet.

A write is encoded (`wal_format`), appended and synced (`wal`), with one sync for all who wait. `commit_log` and
`decision` decide on writes over several tablets. At opening, `wal_recovery` reads the segments again: a torn tail is
cut, damage is an error. `tablet_log` is what a tablet needs of a log, embedded or replicated.
"""
