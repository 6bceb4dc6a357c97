"""Operators without a folder: filter, projection, limit, set operations, recursion, series."""
