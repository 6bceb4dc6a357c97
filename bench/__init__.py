"""Micro-benchmarks: every number beside the same work done by a peer, in the same run.

1. `load.compare` loads lineitem into nyala and into a DuckDB file in turn, each in a process of its own (`worker`), and
   reports time, peak memory and size on disk as ratios.
2. `storage.measure` holds the storage engine by itself against DuckDB's load and pyarrow.dataset's scans, and against
   itself after updates and compactions.
3. `points.measure` writes and looks up single rows, as SQLite and DuckDB do.
4. `driver.measure` does so through PEP 249, and measures many rows of parameters, results and the import.
5. `maintenance.simulate` runs the maintenance policies against a model of a tablet for hours of a workload.
6. The query benchmarks are `tpch.compare`; the `nyala bench` command offers both.
"""
