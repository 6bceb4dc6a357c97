"""Benchmarks: every number beside the same work done by a peer, in the same run.

1. `load.compare` loads lineitem into nyala and into a DuckDB file in turn, each in a process of its own (`worker`), and
   reports time, peak memory and size on disk as ratios.
2. `storage.measure` holds the storage engine by itself against DuckDB's load and pyarrow.dataset's scans, and against
   itself after updates and compactions.
3. `points.measure` writes and looks up single rows, as SQLite and DuckDB do.
4. `driver.measure` does so through PEP 249, and measures many rows of parameters, results and the import.
5. `maintenance.simulate` runs the maintenance policies against a model of a tablet for hours of a workload.
6. `ycsb`, `lineitem` and `mixed` are packages: YCSB's workloads, the Kudu paper's queries of lineitem, and upserts
   while queries run, beside SQLite, DuckDB, PostgreSQL and RocksDB.
7. `cluster.measure` and `cluster_queries.measure` hold a cluster of three servers, `spark.measure` Spark over a store,
   against the embedded store and Spark on Parquet.
8. The query benchmarks are `tpch.compare`; the `nyala bench` command (`arguments`, `command`) offers all of them.
9. `all.all_command` runs every one in a process of its own, and `report` makes a page of HTML and one of Markdown.
"""
