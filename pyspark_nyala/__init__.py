"""The package by whose name Spark finds nyala's data source automatically.

Spark searches each module `pyspark_*` for a `DefaultSource` when a data source in Python is used for the first time.
"""

from __future__ import annotations

from nyala.spark.source.data_source import NyalaDataSource as DefaultSource

__all__ = ["DefaultSource"]
