"""Jobs as functions: ingest, export, backup, restore, and the raw files of TPC-H.

`ingest.ingest` reads files as DataFrames (`sources`), fits their columns to the table (`ingest_plan`), sets bad rows
apart (`row_checks`), sorts if that pays (`key_order`), and writes through `spark.writing`. `export`, `backup` and
`restore` read through the data source. Each job reports its progress (`jobs`).
"""
