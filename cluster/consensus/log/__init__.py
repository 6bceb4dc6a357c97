"""The replicated log: in memory (`raft_log`), on disk (`log_segments`), its retention, and a tablet's view of it.

An entry is appended to `raft_log` in memory, written and synced by the log thread (`log_segments`), and committed by a
majority. A tablet appends and waits through `replicated_log`; entries of clients' calls carry the result that a retry
gets (`tracked`). `log_retention` keeps segments that a replica or a copy of it still needs.
"""
