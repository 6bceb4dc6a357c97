"""Checks if files are in key order already; sorting them again would cost a shuffle and gain nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .ingest_plan import IngestPlan
from .sources import format_of


def is_in_key_order(source: str, format: str | None, plan: IngestPlan) -> bool:
    """True if the row groups of Parquet files ascend by the key's first column, according to their footers.

    That is a guess, which only affects the cost of an ingest: rows within a row group may have any order. False for
    other formats, for patterns and for paths that this process cannot read.
    """
    if format_of(source, format) != "parquet" or not plan.key:
        return False
    place = Path(source)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        return False
    try:
        return all(_ascends(file, plan.key[0]) for file in files)
    except (OSError, pa.ArrowInvalid):
        return False


def _ascends(file: Path, column: str) -> bool:
    metadata = pq.read_metadata(file)
    names = [name.lower() for name in metadata.schema.to_arrow_schema().names]
    if column not in names or metadata.num_columns != len(names):
        return False
    place = names.index(column)
    highest: Any = None
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(place).statistics
        if statistics is None or not statistics.has_min_max:
            return False
        if highest is not None and statistics.min < highest:
            return False
        highest = statistics.max
    return True
