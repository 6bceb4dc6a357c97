"""CSV files as Arrow batches: types are inferred from the first rows, values are read as known types.

`csv_text` finds the rows, Arrow cuts them into fields and converts most values, `csv_values` the rest. An error names
file, line and column; for that the rows of its block are parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from ...errors import DataError
from ...model.arrow_arrays import arrow_array
from ...model.lazy_dataclass import dataclass
from .csv_bytes import open_text
from .csv_text import Block, CsvText, Dialect, as_clause
from .csv_values import (
    FALSE_TEXTS,
    TRUE_TEXTS,
    NoValue,
    from_texts,
    guessed_types,
    has_hexadecimal,
    is_spelt,
    refused_values,
)

GUESSED_BYTES = 1 << 22
"""Bytes at the beginning of a file from which its types are guessed."""


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Rows of a file; `line_of` returns the line on which one of them begins, by its 0-based number."""

    rows: pa.RecordBatch
    line_of: Callable[[int], int]


def schema_of(path: str, options: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of a file, their types as inferred from the first block of rows."""
    file = _File(path, Dialect.of(dict(options)), None, GUESSED_BYTES)
    for name in file.names:
        if file.names.count(name) > 1:
            raise DataError(f"{path}, line 1: column {name} occurs twice; read the file with header => false")
    block = next(file.blocks, None)
    if block is None or bool(options.get("all_varchar")):
        return pa.schema([pa.field(name, pa.string()) for name in file.names])
    texts = file.parsed(block, dict.fromkeys(file.fields, pa.string()))
    return pa.schema(list(zip(file.names, guessed_types(texts.columns))))


def names_of(path: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names in a file's header."""
    return _File(path, Dialect.of(dict(options))).names


def read(
    path: str,
    options: Mapping[str, Any],
    types: Mapping[str, pa.DataType],
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[CsvRows]:
    """Yield the rows of a file, some megabytes at a time.

    Parameters
    ----------
    path : str
    options : mapping
        As in `sql.file_options`.
    types : mapping of str to pa.DataType
        Types that the values of columns are read as; the others are texts.
    columns : sequence of str, optional
        Columns to read; None: all of them. If it is empty, the first one is read to count the rows.
    names : sequence of str, optional
        Names of the columns, instead of those in the header.

    Raises `DataError` with file, line and column.
    """
    file = _File(path, Dialect.of(dict(options)), names)
    found = file.names if columns is None else list(columns) or file.names[:1]
    chosen = {name: file.fields[file.names.index(name)] for name in found}
    for block in file.blocks:
        yield file.rows(block, chosen, types)


@dataclass(slots=True)
class _File:
    """A file that is being read: the names of its columns, and the blocks of rows that follow.

    `fields` are the names that Arrow gets: a header may have one name twice.
    """

    path: str
    dialect: Dialect
    given: Sequence[str] | None = None
    block_bytes: int | None = None
    names: list[str] = field(init=False)
    fields: list[str] = field(init=False)
    blocks: Iterator[Block] = field(init=False)
    _as_texts: set[str] = field(default_factory=set)
    """Columns with values that Arrow's parser refuses: those are read as texts from then on."""

    def __post_init__(self) -> None:
        self.blocks = _blocks(self.path, self.dialect, self.block_bytes)
        first = next(self.blocks, None)
        if first is None and (self.dialect.header or self.given is None):
            raise DataError(f"{self.path} is empty")
        self.names = list(self.given or ())
        if first is not None:
            row, rest = split_row(first, self.dialect)
            if self.dialect.header:
                self._refuse_header(row)
                first = rest
            if self.given is None:
                self.names = row if self.dialect.header else [f"column{i}" for i in range(1, len(row) + 1)]
            self.blocks = _chain(first, self.blocks)
        self.fields = [f"f{i}" for i in range(len(self.names))]

    def _refuse_header(self, row: Sequence[str]) -> None:
        if any("\0" in name for name in row):
            raise DataError(f"{self.path}, line 1: the header has a NUL character; is the file UTF-16?")
        if row == [""]:
            raise DataError(f"{self.path}, line 1: the header is empty; read the file with header => false")
        if self.given is not None and len(row) != len(self.given):
            raise DataError(f"{self.path}, line 1: expected {len(self.given)} columns, got {len(row)}")

    # ---- rows ----------------------------------------------------------------------------------------------------

    def rows(self, block: Block, chosen: Mapping[str, str], types: Mapping[str, pa.DataType]) -> CsvRows:
        """The rows of a block: columns `chosen` (name to field) as their `types`."""
        wanted = {name: types.get(name, pa.string()) for name in chosen}
        try:
            arrow = {
                chosen[n]: pa.string() if n in self._as_texts or is_spelt(type_) else type_
                for n, type_ in wanted.items()
            }
            batch = self.parsed(block, arrow, list(chosen.values()))
        except pa.ArrowInvalid:
            batch = self.parsed(block, dict.fromkeys(chosen.values(), pa.string()), list(chosen.values()))
        has_whole = block.has_x and any(pa.types.is_integer(type_) for type_ in wanted.values())
        hexadecimal = has_whole and has_hexadecimal(block.data)
        arrays = [self._column(block, n, batch[f], wanted[n], hexadecimal) for n, f in chosen.items()]
        rows = pa.RecordBatch.from_arrays(arrays, names=list(chosen))
        return CsvRows(rows, lambda row: self._line(block, row))

    def _column(self, block: Block, name: str, array: pa.Array, type_: pa.DataType, hexadecimal: bool) -> pa.Array:
        """Convert a column to its type; texts that Arrow accepted although they are not values are parsed again."""
        try:
            if array.type != type_:
                converted, is_plain = from_texts(array, type_)
                if not is_plain:
                    self._as_texts.add(name)
                return converted
            if refused_values(array, hexadecimal):
                place = self.fields[self.names.index(name)]
                return from_texts(self.parsed(block, {place: pa.string()}, [place])[place], type_)[0]
        except NoValue as error:
            raise DataError(f"{self.path}, line {self._line(block, error.row)}, column {name}: {error}") from None
        return array

    def parsed(
        self, block: Block, types: Mapping[str, pa.DataType], wanted: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """Return the rows of a block as Arrow's parser reads them; raises `pa.ArrowInvalid` if a value is not of its
        type."""
        dialect = self.dialect
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(pa.py_buffer(block.data)),
                pa_csv.ReadOptions(column_names=self.fields, block_size=len(block.data) + 1),
                # The only field of a row may be empty. A row of several fields is never an empty line.
                parse_options(dialect, ignore_empty_lines=len(self.fields) > 1),
                pa_csv.ConvertOptions(
                    column_types=dict(types),
                    include_columns=list(wanted or ()),
                    null_values=[dialect.null],
                    true_values=TRUE_TEXTS,
                    false_values=FALSE_TEXTS,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            self._refuse_ragged(block)
            raise
        return table.combine_chunks().to_batches()[0] if table.num_rows else _no_rows(table.schema)

    # ---- lines ---------------------------------------------------------------------------------------------------

    def _row_bounds(self, block: Block) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the positions at which the rows of a block begin and end (without their line ends), and those of
        quotes."""
        data = block.data
        quotes = np.flatnonzero(data == ord(self.dialect.quote)) if self.dialect.quote else np.zeros(0, np.intp)
        ends = np.flatnonzero((data == 10) | (data == 13))
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.intp)[: len(ends)]
        # A line feed behind a carriage return is part of the same row end.
        second = (starts > 0) & (starts < len(data)) & (starts == ends)
        second[second] = (data[starts[second]] == 10) & (data[starts[second] - 1] == 13)
        kept = ~second
        if len(self.fields) > 1:
            kept &= starts != ends
        return starts[kept], ends[kept], quotes

    def _line(self, block: Block, row: int) -> int:
        start = int(self._row_bounds(block)[0][row])
        before = block.data[:start].tobytes()
        return block.first_line + (before.count(b"\n") or before.count(b"\r"))

    def _refuse_ragged(self, block: Block) -> None:
        """Raise for the first row with too few or too many fields, if there is one."""
        starts, ends, quotes = self._row_bounds(block)
        marks = np.flatnonzero(block.data == ord(self.dialect.delimiter))
        marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
        counts = np.searchsorted(marks, ends) - np.searchsorted(marks, starts) + 1
        wrong = np.flatnonzero(counts != len(self.fields))
        if len(wrong):
            line, count = self._line(block, int(wrong[0])), int(counts[wrong[0]])
            raise DataError(f"{self.path}, line {line}: expected {len(self.fields)} columns, got {count}")


def _blocks(path: str, dialect: Dialect, block_bytes: int | None) -> Iterator[Block]:
    try:
        with open_text(path, dialect.encoding, dialect.compression) as source:
            yield from CsvText(path, source, dialect, block_bytes=block_bytes).blocks()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or as_clause(str(error))}") from error


def split_row(block: Block, dialect: Dialect) -> tuple[list[str], Block]:
    """The fields of a block's first row, and the rows behind it."""
    text = block.text
    stop = _end_of_row(text, dialect.quote.encode())
    fields = {f"f{i}": pa.string() for i in range(text.count(dialect.delimiter.encode(), 0, stop) + 1)}
    row = pa_csv.read_csv(
        pa.BufferReader(text[:stop]),
        pa_csv.ReadOptions(autogenerate_column_names=True, block_size=stop + 1),
        parse_options(dialect, ignore_empty_lines=False),
        pa_csv.ConvertOptions(column_types=fields, null_values=[], check_utf8=False),
    )
    lines = text.count(b"\n", 0, stop) or text.count(b"\r", 0, stop)
    return [column[0].as_py() for column in row.columns], Block(
        block.data[stop:], block.first_line + lines, has_x=block.has_x
    )


def parse_options(dialect: Dialect, ignore_empty_lines: bool, on_invalid: Any = None) -> pa_csv.ParseOptions:
    """Return Arrow's parse options for blocks of a dialect, whose quotes are always doubled."""
    return pa_csv.ParseOptions(
        delimiter=dialect.delimiter,
        quote_char=dialect.quote or False,
        newlines_in_values=True,
        ignore_empty_lines=ignore_empty_lines,
        invalid_row_handler=on_invalid,
    )


def _end_of_row(text: bytes, quote: bytes) -> int:
    """Position at which the first row of a text ends, its line end included."""
    place = quotes = 0
    while place < len(text):
        feed, back = (text.find(end, place) + 1 or len(text) + 1 for end in (b"\n", b"\r"))
        stop = min(feed, back, len(text))
        quotes += text.count(quote, place, stop) if quote else 0
        place = stop
        if quotes % 2 == 0:
            return stop + 1 if stop == back and text[stop : stop + 1] == b"\n" else stop
    return place


def _chain(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    if len(first.data):
        yield first
    yield from rest


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([arrow_array([], item.type) for item in schema], schema=schema)
