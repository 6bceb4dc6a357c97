"""Micro-benchmarks: every number beside the same work done by DuckDB, in the same run.

1. `load.compare` loads lineitem into nyala and into a DuckDB file in turn, each in a process of its own (`worker`), and
   reports time, peak memory and size on disk as ratios.
2. The query benchmarks are `tpch.compare`; the `nyala bench` command offers both.
"""
