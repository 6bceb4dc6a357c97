"""The thick client: a `Store` whose tablets are at servers. `nyala.connect("nyala://host:7051")` makes one.

    SQL, tables, sessions ──► Client ─┬─ catalog/   cached tables and views, locations of replicas, leaders,
                                      │             statistics
                                      ├─ writes/    rows to tablets, exactly once; one row by the row path
                                      ├─ scans/     tokens, one per tablet; each is read from a replica that responds
                                      └─ loads/     bulk loads, all rows or none

The life of a write:
1. `catalog.catalog_cache.CatalogCache.known` returns the latest version of the table; `writes.routing.route` converts
   the rows to its types and assigns each to its tablet; `writes.routing.cut` makes pieces that fit into a message.
2. `writes.batch_writes.Writer` sends the pieces in parallel, each with its own call id (`writes.call_ids.CallIds`).
3. `tablet_calls.TabletCalls` finds the leader, and retries at other replicas, with the same call id, until there is a
   reply or the deadline passes. A server that has processed the call id already returns the recorded result.

Single rows (`writes.single_rows`) are generators of `steps`, which a thread takes (`steps.perform`), or an event loop
(`awaited_rows.perform_awaiting`): locations, retries and call ids are the same. A thread makes the first attempt
without them (`direct_rows`). Look-ups may be sent to a second replica, too (`speculative_reads`).

The life of a scan: `scans.scan_tokens.Scans.tokens` prunes tablets by the predicates and takes one timestamp for all
others; `scans.token_scan.TokenScan` reads a token from a replica, and hides from its caller that a server died
meanwhile.

A client cannot be used in a forked process: gRPC's threads do not exist there.
"""
