"""TPC-H: generates, loads, runs, checks and compares.

The life of a benchmark:

1. `generate.generate` runs `tpchgen-cli`, which writes the eight tables as Parquet files, once per scale factor.
2. `load.load` creates the tables of `schema.TABLES` and streams the files through the bulk loader. It writes a
   `manifest.Manifest` (scale factor, path of the files, buckets) to the database's directory as "tpch.json".
3. `run.run` executes the 22 queries of `queries.QUERIES`, once cold and several times warm.
4. `check.official` compares results with the TPC's answers (scale factor 1), `check.compare` with DuckDB's results on
   the same files (any other).
5. `compare.compare` runs nyala and the peers (`peers.PEERS`) in turn; `compare_report` and `chart` show the ratios.

`command` implements the `nyala tpch` command.
"""
