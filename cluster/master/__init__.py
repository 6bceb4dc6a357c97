"""The master: catalog, placement, directory of tablets.

The life of a CREATE TABLE:

1. `catalog.ddl.Ddl.create_table` waits for its turn, and looks whether this very call was made before.
2. `catalog.catalog_changes.created` checks the definition and says which rows the catalog gets;
   `balance.placement.place_tablets` chooses the servers.
3. `catalog.catalog_manager.CatalogManager.commit` writes the rows as one entry of the system tablet's log
   (`catalog.system_tablet.SystemTablet`): a majority of the masters has them. From now on the table exists.
4. `balance.coordinator.Coordinator.round` looks (`balance.cluster_view.view_cluster`), decides
   (`balance.repair.decide`) and sends the orders that are due (`balance.order_book.OrderBook`). Whatever fails is
   ordered again, by this master or the next.
5. Tablet servers report (`queries.Queries.heartbeat`), the `directory.TabletDirectory` takes note.
6. `catalog.catalog_changes.settled` sees that all tablets serve, and the caller has its answer.

Everything else goes the same way: rows first, and from the difference between rows and reports follow the orders.
"""
