"""Spark: tables as a data source, queries planned here and run there, pipelines."""
