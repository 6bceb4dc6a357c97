"""Benchmarks: every number next to the same work done by a peer, in the same run.

1. `load.compare` loads lineitem into nyala and into a DuckDB file in turn, each in a separate process (`worker`), and
   reports time, peak memory and size on disk as ratios.
2. `storage.measure` compares the storage engine alone with DuckDB's load and pyarrow.dataset's scans, and with itself
   after updates and compactions.
3. `points.measure` writes and looks up single rows, with SQLite and DuckDB as peers.
4. `driver.measure` does so through PEP 249, and measures many rows of parameters, results and the import.
   `doors.measure` measures the PostgreSQL protocol, with PostgreSQL as peer.
5. `maintenance.simulate` runs the maintenance policies against a model of a tablet for hours of a workload.
6. `ycsb`, `lineitem` and `mixed` are packages: YCSB's workloads, the Kudu paper's queries of lineitem, and upserts
   during queries, with SQLite, DuckDB, PostgreSQL and RocksDB as peers.
7. `cluster.measure` and `cluster_queries.measure` compare a cluster of three servers with the embedded store,
   `spark.measure` Spark over a store with Spark on Parquet.
8. The query benchmarks are `tpch.compare`; the `nyala bench` command (`arguments`, `command`) offers all of them.
9. `all.all_command` runs each in a separate process, and `report` writes a page of HTML and one of Markdown.
"""
