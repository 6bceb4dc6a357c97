"""The ways to read a tablet: in batches, in key order, one row, what changed, and whether all of it is sound."""
