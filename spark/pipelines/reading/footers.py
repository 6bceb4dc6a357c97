"""Reads the columns of Parquet files from their footers: those of all files, not only of the one that Spark reads
first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

import pyarrow as pa
import pyarrow.parquet as pq

from ....errors import DataError
from ....model.lazy_dataclass import dataclass
from .listing import path_of
from .raw_files import opened


@dataclass(frozen=True, slots=True)
class Footer:
    """A file: the Parquet type of each of its leaf columns."""

    uri: str
    columns: Mapping[str, str] = field(default_factory=dict)


def read_footer(uri: str) -> Footer:
    """Reads a file's footer; raises `DataError` if it has none."""
    try:
        with opened(uri) as file:
            schema = pq.read_metadata(file).schema
    except pa.ArrowException as error:
        raise DataError(f"{path_of(uri)} is not a complete Parquet file: {str(error).partition('.')[0]}") from error
    return Footer(uri, {column.path: _type(column) for column in map(schema.column, range(len(schema.names)))})


def _type(column: pq.ColumnSchema) -> str:
    logical = str(column.logical_type)
    bare = logical in ("None", "NoneType", "")
    length = f"({column.length})" if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else ""
    return f"{column.physical_type}{length}" if bare else f"{column.physical_type}{length} {logical}"


def check_alike(footers: Iterable[Footer]) -> None:
    """Raises `DataError` naming two files in which a column has different types."""
    first: dict[str, tuple[str, str, str]] = {}
    for footer in footers:
        for path, type_ in footer.columns.items():
            uri, name, other = first.setdefault(path.lower(), (footer.uri, path, type_))
            if type_ != other:
                raise DataError(
                    f"{path_of(footer.uri)}: column {path} is {type_}, and in {path_of(uri)} column {name} is {other}; "
                    "read these files separately"
                )
