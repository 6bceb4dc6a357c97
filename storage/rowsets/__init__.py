"""Rows of a tablet: the MemRowSet, the DiskRowSets with their deltas, and how they are read.

Rows are inserted into a `memrowset`, flushed by `rowset_writer` as `disk_rowset`s, and held with their deltas as
`stored_rowset`s. A scan goes by `row_group`s: predicates first, then the columns of the rows that are left, with
changed cells as an overlay (`changed_rows_overlay`, `patched_columns`) or rows apart (`changed_rows_apart`).
"""
