"""Calls between processes: channels, long-lived streams of small calls, deferred replies."""
