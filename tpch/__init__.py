"""TPC-H: generate, load, run, check, compare.

The life of a benchmark:

1. `generate.generate` has `tpchgen-cli` write the eight tables as Parquet files, once per scale factor.
2. `load.load` creates the tables of `schema.TABLES` and streams the files through the bulk loader; it leaves a
   `manifest.Manifest` (scale factor, place of the files, buckets) in the database's directory as "tpch.json".
3. `run.run` executes the 22 queries of `queries.QUERIES`, once cold and several times warm.
4. `check.official` compares results with the TPC's answers (scale factor 1), `check.compare` with what DuckDB answers
   on the same files (any other).
5. `compare.compare` runs us and the peers (`peers.PEERS`) in turn; `compare_report` and `chart` show the ratios.

`command` makes all of it the `nyala tpch` command.
"""
