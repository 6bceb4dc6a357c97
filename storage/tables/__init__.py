"""Tables of a store: the catalog, partitioned tables, bulk loads, alterations.

`durable_catalog` names the tables of a store. `tablet_opening` opens their tablets, and puts damaged ones in
quarantine (`damage_notes`); `table_store` then routes writes and scans to them. `table_alteration` changes a table in
use; `dropped_folders` removes what no catalog names.
"""
