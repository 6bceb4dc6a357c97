"""Replicas: a tablet with a replicated log, its exactly-once results, its copies to other servers."""
