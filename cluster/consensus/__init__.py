"""Raft nodes at work: their logs on disk, their threads, their messages."""
