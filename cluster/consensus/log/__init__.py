"""The replicated log: in memory, on disk in segments, and its retention."""
