"""PEP 249 over a store: connections, cursors and the session that takes a statement through the rooms below.

    connect ──► Connection ──► Cursor.execute ──► Session.run ──► Execution ──► fetchone, fetchall, arrow, ...
                    │                                 │
                 stores.acquire                 parse ─ bind ─ plan ─ run

The life of a statement:

1. `connection.connect` reads the target and the options and acquires the store (`stores.open_stores.acquire`);
   connections of one process to one directory share it, a second process is refused (`StoreLocked`).
2. `Cursor.execute` normalizes the parameters (`session.bind_values.normalize`) and calls `Session.run`.
3. `Session.parse` parses the text; a text may hold several statements, each of which is bound only when those before
   it have run, because they may have created its tables.
4. `Session.bind` and `Session.start` bind, plan and start it with a new cancel event, which `Connection.cancel` sets,
   and `Cursor.cancel` through the cursor's `session.executions.Halt`.
5. The `session.executions.Execution` returns Arrow record batches as the executor makes them; the cursor converts some
   thousands of rows at a time to Python values, or returns the batches unchanged.
6. `Cursor.executemany` has a batch path for INSERT and UPSERT of `VALUES`: parameter rows become the columns of an
   Arrow batch (`session.insert_batches.insert_rows`), so that a thousand rows cost one bind and one write.
7. `Connection.load` streams Arrow data or files into the store's bulk loader (`stores.bulk_loads.load`).
8. `aio` is the same with `await`: each step runs in a thread of the connection, except for rows by key of a store
   that has servers (`async_calls.RowCalls`).

The same store without SQL (Kudu paper, sections 2.2 to 2.4; docs/client.md):

1. `Connection.table` returns a `tables.table_handle.TableHandle`. Its methods accept rows in any form
   (`tables.given_rows`) and write them as `WriteBatch`es (`tables.row_writes`); `tables.write_session.WriteSession`
   buffers rows first, and may write in the background.
2. Conditions (`tables.conditions.col`) become predicates of the store; `tables.table_scans.Scan` reads the tokens of
   one scan as Arrow batches, `tables.table_changes.Changes` the changes between two timestamps.
3. `tables.scan_tokens.ScanToken` is a part of a scan that is serialized as bytes; `tables.key_ranges` cuts large
   tablets into several.

Every statement is durable when it returns, so there is no transaction to commit or to roll back; a session only stores
whether it has written since the last commit, and when. A query reads the snapshot of its beginning, or that of
`Connection.at`; statements that write, and loads, are atomic. `Cursor.executemany` writes in pieces of 16,384 rows,
each of them all or none.
"""
