"""The replicated log: in memory (`raft_log`), on disk (`log_segments`), its retention, and a tablet's view of it."""
