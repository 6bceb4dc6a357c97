"""The master: catalog, placement, directory of tablets.

    server            the master process                   queries           methods that read; heartbeats
    catalog/          DDL, and the replicated system tablet with its rows
    balance/          placement, repair, the coordinator that compares catalog and reports
    directory         state of tablet servers and replicas, as reported
    membership        adding and removing masters
    master_directory  files of a master                    options, threads

The life of a CREATE TABLE:

1. `catalog.ddl.Ddl.create_table` acquires the DDL lock, and checks whether this call id was processed before.
2. `catalog.catalog_changes.created` checks the definition and returns the new rows of the catalog;
   `balance.placement.place_tablets` chooses the servers.
3. `catalog.catalog_manager.CatalogManager.commit` writes the rows as one entry of the system tablet's log
   (`catalog.system_tablet.SystemTablet`): a majority of the masters has them. From now on the table exists.
4. `balance.coordinator.Coordinator.round` takes a view (`balance.cluster_view.view_cluster`), decides
   (`balance.repair.decide`) and sends the orders that are due (`balance.order_book.OrderBook`). Failed orders are
   sent again, by this master or the next.
5. Tablet servers report (`queries.Queries.heartbeat`), and `directory.TabletDirectory` records it.
6. `catalog.catalog_changes.settled` finds that all tablets serve, and the caller gets its reply.

All other changes work the same way: rows first, then orders from the difference between rows and reports.
"""
