"""The row path: one row is written, read and logged without Arrow, from the key to the log entry.

`row_write` takes a row of Python values: `row_codec` checks and encodes it, `tablet.row_locator` finds where its key
lives, and `wal_row` makes the log entry. `row_read` finds the row and applies its deltas (`row_deltas`). `rows_write`
writes a few rows (`row_changes`) at one timestamp: small batches, the COMMIT of a small transaction.
"""
