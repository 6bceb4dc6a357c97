"""Cached metadata of the cluster: tables, locations, statistics."""
