"""The thick client: a `Store` whose tablets are elsewhere. `nyala.connect("nyala://host:7051")` makes one.

    SQL, tables, sessions ──► Client ─┬─ catalog_cache   tables and views, asked of the leading master (`masters`)
                                      ├─ locations       where each tablet's replicas are, and who leads
                                      ├─ writes          rows to tablets, exactly once (`calls`, `retry`)
                                      ├─ single_rows     the same for one row, by a shorter way
                                      ├─ scans           tokens; `scan_streams` reads one, from whichever replica can
                                      ├─ facts           statistics and descriptions, put together from all tablets
                                      └─ loads           many rows, all or none

The life of a write:
1. `catalog_cache.CatalogCache.known` gives the table as it is now; `routing.route` brings the rows to its types and
   sends each to its tablet; `routing.cut` makes pieces that fit into a message.
2. `writes.Writer` sends the pieces side by side, each under a number of its own (`calls.CallNumbers`).
3. `tablet_calls.TabletCalls` finds the leader, and asks again elsewhere, with the same number, until there is an answer
   or the deadline is over. The server that has seen the number already gives the answer that it gave then.

The life of a scan: `scans.Scans.tokens` leaves out tablets that the predicates rule out and draws one time for all
others; `scan_streams.TokenScan` reads a token from a replica, and hides from its caller that a server died meanwhile.

Nothing here is used again in a process that was forked: gRPC's threads are not there.
"""
