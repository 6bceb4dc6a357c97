"""CSV files: types found out from the first rows, values read as types that are known, errors with their line.

An error is looked for again where it came: Arrow's threads do not know the row, so the file is read once more by one
thread, and Python's reader finds the line on which that row begins, for a quoted value may hold line breaks.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from ...errors import DataError
from ...sql.file_options import compression_of
from ...storage.types import type_from_arrow

_BLOCK_BYTES = 1 << 22
_TRUE = ["true", "True", "TRUE", "t", "T", "yes", "on", "1"]
_FALSE = ["false", "False", "FALSE", "f", "F", "no", "off", "0"]


def schema_of(path: str, options: Mapping[str, Any]) -> pa.Schema:
    """The columns of a file, their types as the first block of rows has them."""
    try:
        with _open(path, options) as stream:
            reader = pa_csv.open_csv(stream, _read_options(options, None), _parse_options(options), _guess(options))
            names = _header(reader.schema.names, options)
            schema = pa.schema([pa.field(name, field.type) for name, field in zip(names, reader.schema)])
    except (OSError, pa.ArrowException) as error:
        raise _located(path, options, {}, None, error) from error
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise DataError(f"{path}, line 1: column {name} is there twice; read the file with header => false")
    if bool(options.get("all_varchar")):
        return pa.schema([pa.field(name, pa.string()) for name in schema.names])
    return schema


def _header(names: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The columns' names: column1, column2, ... where the file has no header."""
    return list(names) if options.get("header", True) else [f"column{i}" for i in range(1, len(names) + 1)]


def names_of(path: str, options: Mapping[str, Any]) -> list[str]:
    """The names in a file's header."""
    try:
        with _open(path, options) as stream:
            names = next(iter(_rows(options, stream)), None)
    except OSError as error:
        raise _located(path, options, {}, None, error) from error
    if names is None:
        raise DataError(f"{path} is empty")
    return [str(name) for name in names]


def read(
    path: str,
    options: Mapping[str, Any],
    types: Mapping[str, pa.DataType],
    wanted: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, a few thousand at a time.

    Parameters
    ----------
    path : str
    options : mapping
        As in `sql.file_options`.
    types : mapping of str to pa.DataType
        What the values of columns are read as; those of others are guessed.
    wanted : sequence of str, optional
        The columns to read; None: all of them. Where it is empty, the first one comes, to tell the number of rows.
    names : sequence of str, optional
        What the columns are called, where the file has no header.

    Raises `DataError` with file, line and column.
    """
    if names is None and not options.get("header", True):
        names = schema_of(path, options).names
    if wanted is not None and not wanted:
        wanted = (names_of(path, options) if names is None else names)[:1]  # none at all would mean all
    read_options, convert = _read_options(options, names), _convert(options, types, wanted)
    try:
        with _open(path, options) as stream:
            yield from pa_csv.open_csv(stream, read_options, _parse_options(options), convert)
    except (OSError, pa.ArrowException) as error:
        if names is not None and "Empty CSV file" in str(error):
            return  # without a header, it has no row
        raise _located(path, options, types, names, error) from error


def _open(path: str, options: Mapping[str, Any]) -> Any:
    compression = options.get("compression", compression_of(path))
    return pa.input_stream(path, compression=None if compression == "none" else compression)


def _read_options(options: Mapping[str, Any], names: Sequence[str] | None, threads: bool = True) -> Any:
    has_header = options.get("header", True)
    return pa_csv.ReadOptions(
        use_threads=threads,
        block_size=_BLOCK_BYTES,
        column_names=None if has_header or names is None else list(names),
        autogenerate_column_names=not has_header and names is None,
    )


def _parse_options(options: Mapping[str, Any]) -> Any:
    return pa_csv.ParseOptions(
        delimiter=options.get("delimiter", ","),
        quote_char=options.get("quote", '"'),
        double_quote="escape" not in options or options["escape"] == options.get("quote", '"'),
        escape_char=_escape(options),
        newlines_in_values=True,
    )


def _escape(options: Mapping[str, Any]) -> Any:
    escape = options.get("escape", False)
    return False if escape == options.get("quote", '"') else escape


def _nulls(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "null_values": [options.get("null", "")],
        "strings_can_be_null": True,
        "quoted_strings_can_be_null": False,
    }


def _guess(options: Mapping[str, Any]) -> Any:
    return pa_csv.ConvertOptions(**_nulls(options))


def _convert(options: Mapping[str, Any], types: Mapping[str, pa.DataType], wanted: Sequence[str] | None) -> Any:
    return pa_csv.ConvertOptions(
        column_types=dict(types),
        true_values=_TRUE,
        false_values=_FALSE,
        include_columns=[] if wanted is None else list(wanted),
        **_nulls(options),
    )


# ---- errors ----------------------------------------------------------------------------------------------------------


def _located(
    path: str, options: Mapping[str, Any], types: Mapping[str, pa.DataType], names: Sequence[str] | None, error: Any
) -> DataError:
    """The error with its line and column, as far as they can be found."""
    if isinstance(error, OSError) and error.errno:
        return DataError(f"{path} cannot be read: {error.strerror}")
    message = str(error)
    if "Empty CSV file" in message:
        return DataError(f"{path} is empty")
    try:
        with _open(path, options) as stream:
            options_ = _read_options(options, names, threads=False)
            for _ in pa_csv.open_csv(stream, options_, _parse_options(options), _convert(options, types, None)):
                pass
    except (OSError, pa.ArrowException) as again:
        message = str(again)
    found = re.search(r"Row #(\d+): ", message)
    line = f", line {_line(path, options, int(found[1]))}" if found else ""
    column = re.search(r"In CSV column #(\d+): ", message)
    name = _column_name(path, options, names, int(column[1])) if column else ""
    text = re.sub(r"^.*(In CSV column #\d+: |Row #\d+: |CSV parse error: )", "", message)
    value = re.match(r"CSV conversion error to (.+?): invalid value (.*)$", text, re.DOTALL)
    if value:
        text = f"{value[2]} is no {_type_name(types.get(name)) or value[1]}"
    return DataError(f"{path}{line}{f', column {name}' if name else ''}: {text[:1].lower()}{text[1:]}")


def _rows(options: Mapping[str, Any], stream: Any) -> Any:
    return csv.reader(
        io.TextIOWrapper(stream, "utf-8", "replace", newline=""),
        delimiter=options.get("delimiter", ","),
        quotechar=options.get("quote", '"'),
        escapechar=_escape(options) or None,
    )


def _line(path: str, options: Mapping[str, Any], row: int) -> int:
    """The line on which the row-th row begins, both from 1. Empty lines are no rows."""
    with _open(path, options) as stream:
        rows = _rows(options, stream)
        before, seen = 0, 0
        for values in rows:
            seen += bool(values)
            if seen == row:
                break
            before = rows.line_num
        return before + 1


def _column_name(path: str, options: Mapping[str, Any], names: Sequence[str] | None, place: int) -> str:
    if names is None:
        with _open(path, options) as stream:
            names = next(iter(_rows(options, stream)), [])
    return names[place] if place < len(names) else str(place + 1)


def _type_name(type_: pa.DataType | None) -> str:
    return "" if type_ is None else str(type_from_arrow(type_))
