"""Operators without a folder: filter, projection, limit, set operations, recursion, series.

Each function opens a plan node as a `run.stream.Stream` over the streams of its inputs. Stateless operators pass
morsels on (`basic`); the others keep rows, account for their memory, and end early if no more rows are needed
(`limit`, `top_rows`).
"""
