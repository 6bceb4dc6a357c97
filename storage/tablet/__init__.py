"""A tablet: its state, what may be seen of it, its metadata, and how both come back after a crash.

`tablet.Tablet` has one immutable state, which every flush and compaction replaces; readers pin the one that they began
with. `mvcc` decides which timestamps a reader sees. `tablet_metadata` names the files, and `tablet_replay` brings a
tablet back: files first, then the log (`tablet_apply`). `damaged_tablet` takes its place if it cannot be opened.
"""
