"""The catalog of the masters.

catalog_state, records  the catalog in memory, and its rows      catalog_changes  DDL as pure functions
catalog_manager         the leader's catalog, one change at a time
ddl                     the methods that change it               system_tablet    the replicated tablet of the rows
system_copy             remote bootstrap between masters         space            full disks
"""
