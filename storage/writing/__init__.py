"""The way of a write, from an Arrow batch or a Python row to the log and the rowsets.

`incoming_rows` brings a batch to the table's columns, `by_tablet` splits it, `tablet_write` locks a tablet and finds
the rows (`tablet.row_locator`), `op_resolution` decides on each, and `net_changes` is what gets logged and applied.
`joint_write` ends a write over several tablets.
"""
