"""Scans of a cluster: one token per tablet, read from a replica."""
