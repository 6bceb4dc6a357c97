"""The thick client: a `Store` whose tablets are elsewhere. `nyala.connect("nyala://host:7051")` makes one.

    SQL, tables, sessions ──► Client ─┬─ catalog_cache   tables and views, asked of the leading master (`catalog.masters`)
                                      ├─ locations       where each tablet's replicas are, and who leads
                                      ├─ writes          rows to tablets, exactly once (`writes.call_ids`, `retry`)
                                      ├─ single_rows     the same for one row, by a shorter way
                                      ├─ scans           tokens; `scan_streams` reads one, from whichever replica can
                                      ├─ facts           statistics and descriptions, put together from all tablets
                                      └─ loads           many rows, all or none

The life of a write:
1. `catalog.catalog_cache.CatalogCache.known` gives the table as it is now; `writes.routing.route` brings the rows to
   its types and sends each to its tablet; `writes.routing.cut` makes pieces that fit into a message.
2. `writes.batch_writes.Writer` sends the pieces side by side, each under a number of its own
   (`writes.call_ids.CallNumbers`).
3. `tablet_calls.TabletCalls` finds the leader, and asks again elsewhere, with the same number, until there is an answer
   or the deadline is over. The server that has seen the number already gives the answer that it gave then.

The life of a scan: `scans.scan_tokens.Scans.tokens` leaves out tablets that the predicates rule out and draws one time
for all others; `scan_streams.TokenScan` reads a token from a replica, and hides from its caller that a server died
meanwhile.

Nothing here is used again in a process that was forked: gRPC's threads are not there.
"""
