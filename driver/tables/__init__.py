"""Tables without SQL: rows in, scans, scan tokens and changes out.

`table_handle.TableHandle` is one table. Rows come in any form (`given_rows`) and leave as batches (`row_writes`,
`write_session`); conditions (`conditions`) become predicates of a scan (`table_scans`). `scan_tokens` are parts of a
scan that other processes read, and `table_changes` is the history of the rows.
"""
