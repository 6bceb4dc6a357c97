"""Parquet files: schema and statistics from their footers, row groups as pieces of work.

Arrow's modules for files are imported by the first statement that reads one: they take longer than most statements.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import DataError, Error, UnknownColumn, did_you_mean
from ...model.store import ColumnStatistics, TableStatistics
from ...model.types import DataType
from ..run.stream import BATCH_ROWS
from .csv_text import as_clause

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MOST_FOOTERS = 64
"""Number of files whose footers are read for statistics; for more, the size is used as an estimate."""


def footer_of(path: str) -> pq.FileMetaData:
    """Return a file's footer. Raises `DataError` if it is not a Parquet file or cannot be read."""
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except pa.ArrowInvalid as error:
        reason = _reason(error)
        raise DataError(f"{path}: not a Parquet file{'' if 'magic bytes' in reason else f': {reason}'}") from error
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    text = str(error).rstrip(".")
    return as_clause(text)


def schema_of(path: str) -> pa.Schema:
    """Return the columns of a file."""
    return footer_of(path).schema.to_arrow_schema()


# ---- statistics ------------------------------------------------------------------------------------------------------


def statistics_of(paths: Sequence[str], types: Mapping[str, DataType]) -> TableStatistics:
    """Row count, and per column NULLs and bounds, of all files together; estimated by size if there are very many."""
    footers = [footer_of(path) for path in paths[:_MOST_FOOTERS]]
    rows = sum(footer.num_rows for footer in footers)
    read = sum(Path(path).stat().st_size for path in paths[:_MOST_FOOTERS])
    rest = sum(Path(path).stat().st_size for path in paths[_MOST_FOOTERS:])
    share = 1.0 + rest / max(1, read)
    columns = {name: _column(footers, name, type_, share) for name, type_ in types.items()}
    return TableStatistics(int(rows * share), columns)


def _column(footers: Sequence[pq.FileMetaData], name: str, type_: DataType, share: float) -> ColumnStatistics:
    nulls, lows, highs = 0, [], []
    for footer in footers:
        place = {footer.schema.column(i).path: i for i in range(footer.num_columns)}.get(name)
        for group in range(footer.num_row_groups if place is not None else 0):
            known = footer.row_group(group).column(place).statistics
            nulls += 0 if known is None or known.null_count is None else known.null_count
            lows.append(_bound(known, "min", type_))
            highs.append(_bound(known, "max", type_))
    low = min(lows, default=None) if all(value is not None for value in lows) else None
    high = max(highs, default=None) if all(value is not None for value in highs) else None
    return ColumnStatistics(low, high, int(nulls * share))


def _bound(known: Any, name: str, type_: DataType) -> Any:
    """Return the least or the greatest value as nyala's; None if it is unknown or has no counterpart."""
    try:
        value: Any = getattr(known, name) if known is not None and known.has_min_max else None
        if getattr(value, "tzinfo", None) is not None:
            value = value.replace(tzinfo=None)
        return None if value is None else type_.to_physical(value)
    except (Error, TypeError, ValueError):
        return None


# ---- reading ---------------------------------------------------------------------------------------------------------


def pieces(
    path: str, names: Sequence[str], first: str, prune: Callable[[pa.Schema], Any]
) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
    """Return the row groups of a file that the expression of `prune` does not exclude; `first` is the file that defined
    the columns."""
    schema = schema_of(path)
    for name in names:
        if name not in schema.names:
            hint = did_you_mean(name, schema.names, "it has")
            raise UnknownColumn(f"{path} has no column {name}, which {first} has{hint}")
        if schema.names.count(name) > 1:
            raise DataError(f"{path} has two columns {name}; write the file with another name for one of them")
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    fragment = ds.ParquetFileFormat().make_fragment(path, LocalFileSystem())
    test = prune(schema)
    groups = fragment.split_by_row_group() if test is None else fragment.split_by_row_group(test, schema)
    return [_piece(path, group, list(names)) for group in groups]


def _piece(path: str, fragment: Any, names: list[str]) -> Callable[[], Iterator[pa.RecordBatch]]:
    import pyarrow.dataset as ds

    def run() -> Iterator[pa.RecordBatch]:
        try:
            yield from fragment.to_batches(
                columns=names,
                batch_size=BATCH_ROWS,
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
                # The row group is read as it is consumed, not prefetched completely.
                fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False),
            )
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path} cannot be read: {_reason(error)}") from error

    return run


def read(path: str) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a file, row group by row group."""
    names = list(schema_of(path).names)
    for piece in pieces(path, names, path, lambda _: None):
        yield from piece()
