"""The thick client: a `Store` whose tablets are elsewhere. `nyala.connect("nyala://host:7051")` makes one.

    SQL, tables, sessions ──► Client ─┬─ catalog/   cached tables and views, locations of replicas, leaders,
                                      │             statistics
                                      ├─ writes/    rows to tablets, exactly once; one row by the row path
                                      ├─ scans/     tokens, one a tablet; each is read from a replica that responds
                                      └─ loads/     bulk loads, all rows or none

The life of a write:
1. `catalog.catalog_cache.CatalogCache.known` gives the table as it is now; `writes.routing.route` brings the rows to
   its types and sends each to its tablet; `writes.routing.cut` makes pieces that fit into a message.
2. `writes.batch_writes.Writer` sends the pieces side by side, each under a number of its own
   (`writes.call_ids.CallNumbers`).
3. `tablet_calls.TabletCalls` finds the leader, and asks again elsewhere, with the same number, until there is an answer
   or the deadline is over. The server that has seen the number already gives the answer that it gave then.

The life of a scan: `scans.scan_tokens.Scans.tokens` leaves out tablets that the predicates rule out and draws one time
for all others; `scans.token_scan.TokenScan` reads a token from a replica, and hides from its caller that a server died
meanwhile.

Nothing here is used again in a process that was forked: gRPC's threads are not there.
"""
