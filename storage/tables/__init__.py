"""Tables of a store: the catalog, partitioned tables, bulk loads, alterations."""
