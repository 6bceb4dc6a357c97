"""PEP 249 over a store: connections, cursors and the session that takes a statement through the rooms below.

    connect ──► Connection ──► Cursor.execute ──► Session.run ──► Execution ──► fetchone, fetchall, arrow, ...
                    │                                 │
                 stores.acquire                 parse ─ bind ─ plan ─ run

The life of a statement:

1. `connection.connect` reads the target and the options and asks `stores.open_stores.acquire` for the store;
   connections of one process to one directory share it, a second process is refused (`StoreLocked`).
2. `Cursor.execute` brings the parameters into one shape (`session.bind_values.normalize`) and calls `Session.run`.
3. `Session.parse` parses the text; a text may hold several statements, each of which is bound only when those before
   it have run, because they may have created its tables.
4. `Session.bind` and `Session.start` bind it, plan it and start it under a fresh cancel event, which
   `Connection.cancel` sets, and `Cursor.cancel` through the cursor's `session.executions.Halt`.
5. The `session.executions.Execution` hands out Arrow record batches as the executor makes them; the cursor turns them
   into rows of Python values some thousands at a time, or passes them on as they are.
6. `Cursor.executemany` takes a shorter road for INSERT and UPSERT of `VALUES`: parameter rows become the columns of
   an Arrow batch (`session.insert_batches.insert_rows`), so that a thousand rows cost one bind and one write.
7. `Connection.load` streams Arrow data or files into the store's bulk loader (`stores.bulk_loads.load`).
8. `aio` is the same with `await`: each step runs in a thread of the connection.

The same store without SQL (Kudu paper, sections 2.2 to 2.4; docs/client.md):

1. `Connection.table` gives a `tables.table_handle.TableHandle`. What its methods write comes in any form
   (`tables.given_rows`) and goes to the store as `WriteBatch`es (`tables.row_writes`);
   `tables.write_session.WriteSession` gathers rows first, and may write in the background.
2. Conditions (`tables.conditions.col`) become predicates of the store; `tables.table_scans.Scan` reads the tokens of
   one scan as Arrow batches, `tables.table_changes.Changes` what happened between two moments.
3. `tables.scan_tokens.ScanToken` is a part of a scan that travels as bytes; `tables.key_ranges` cuts large tablets into
   several.

Every statement is durable when it returns, so there is no transaction to commit or to roll back; a session only
remembers whether it has written since the last commit, and when. A query sees the moment it began, or that of
`Connection.at`; a statement that writes and a load do all of it or nothing. `Cursor.executemany` writes in pieces of
16,384 rows, each of them all or none.
"""
