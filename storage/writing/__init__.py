"""The way of a write, from an Arrow batch or a Python row to the log and the rowsets.

`incoming_rows` brings a batch to the table's columns, `by_tablet` splits it, `tablet_write` locks a tablet and finds
the rows (`tablet.row_locator`), `op_resolution` decides on each, and `net_changes` is what gets logged and applied.
`tablet_part` is what `tablet_write` has in common with the same for few rows (`single_rows.rows_write`), and
`joint_write` ends a write over several tablets.
"""
