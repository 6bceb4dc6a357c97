"""Jobs as functions: ingest, export, backup, restore, and the raw files of TPC-H."""
