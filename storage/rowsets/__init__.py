"""Rows of a tablet: the MemRowSet, the DiskRowSets with their deltas, and how they are read."""
