"""The table that most benchmarks load: TPC-H's lineitem, at the scale factor of the command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..tpch.generate import generate, parquet_file
from ..tpch.schema import LINEITEM


def lineitem_source(arguments: argparse.Namespace) -> tuple[Path, str]:
    """The Parquet file of lineitem, generated if it is missing, and its CREATE TABLE."""
    directory = arguments.data_dir or Path(f"tpch-parquet-sf{arguments.sf:g}")
    generate(arguments.sf, directory.resolve(), print)
    return parquet_file(directory, "lineitem"), LINEITEM.create_table(arguments.buckets)
