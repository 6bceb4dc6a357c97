"""Operators that need no folder of their own: filter, projection, limit, set operations, recursion, series."""
