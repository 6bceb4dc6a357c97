"""Jobs as functions: ingest, export, backup, restore, TPC-H's raw files."""
