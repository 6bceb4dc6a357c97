"""The ways to read a tablet: in batches, in key order, one row, what changed, and whether all of it is sound.

A scan is planned as tokens (`tablet_scan.cut`) and read as batches. `ordered_scan` merges the sources by key,
`short_scan` reads few rows from a key on without batches, and `changes` reads what happened between two times.
"""
