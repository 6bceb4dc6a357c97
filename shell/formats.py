"""Results as text: table, csv, json, markdown or vertical, written a batch at a time.

The widths of a table come from its first 10,000 rows or so, which are held back for it, so that a result of any size
needs the memory of a batch; a wider cell further down pushes its line out, as in psql with FETCH_COUNT.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from ..model.types import DataType, Interval, Kind

NULL_TEXT: Final = "NULL"
MEASURED: Final = 10_000
"""Rows that the widths of a table come from, at least."""
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {9: "\\t", 10: "\\n", 13: "\\r"}
"""Control characters are shown, not sent: a value must not move the cursor or break the table."""


class Sink(Protocol):
    """Output of a format: a text stream, or any object that takes whole lines."""

    def write(self, text: str, /) -> int: ...

    def writelines(self, lines: Iterable[str], /) -> None: ...


class Format(Protocol):
    """Writes one result set."""

    def begin(self, names: Sequence[str], types: Sequence[DataType]) -> None: ...

    def rows(self, batch: pa.RecordBatch) -> None:
        """Write the next rows."""

    def end(self) -> None: ...


def write(name: str, columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch], out: Sink) -> int:
    """Write a result set in the format called `name`; how many rows it had."""
    writer: Format = FORMATS[name](out)
    writer.begin([column for column, _ in columns], [type_ for _, type_ in columns])
    count = 0
    for batch in batches:
        writer.rows(batch)
        count += batch.num_rows
    writer.end()
    return count


def texts(array: pa.Array, type_: DataType) -> list[str | None]:
    """A column's values as text, None for NULL."""
    if type_.kind is Kind.BINARY:
        return [None if value is None else "\\x" + value.hex() for value in array.to_pylist()]
    if type_.kind is Kind.INTERVAL:
        return [None if v is None else str(Interval(v[0], v[1], v[2] // 1000)) for v in array.to_pylist()]
    if type_.kind is Kind.TIMESTAMP:
        # Fractions of a second are shown where there are any.
        stamps: list[str | None] = array.cast(pa.string()).to_pylist()
        return [stamp and (stamp[:19] if stamp.endswith(".000000") else stamp) for stamp in stamps]
    result: list[str | None] = array.cast(pa.string()).to_pylist()
    return result


class TableFormat:
    """Aligned columns, numbers to the right."""

    def __init__(self, out: Sink):
        self._out = out
        self._names: list[str] = []
        self._types: list[DataType] = []
        self._widths: list[int] | None = None
        self._held: list[list[str]] = []

    def begin(self, names: Sequence[str], types: Sequence[DataType]) -> None:
        self._names, self._types = [_printable(name) for name in names], list(types)
        self._held = [[] for _ in names]

    def rows(self, batch: pa.RecordBatch) -> None:
        cells = self._cells(batch)
        if self._widths is None:
            for held, column in zip(self._held, cells):
                held += column
            if len(self._held[0]) >= MEASURED:
                self._release()
        else:
            self._lines(cells, self._widths)

    def end(self) -> None:
        if self._widths is None:
            self._release()

    def _release(self) -> None:
        """The header, with the widths of the buffered rows, and these rows."""
        cells, self._held = self._held, []
        self._header(cells)
        assert self._widths is not None
        self._lines(cells, self._widths)

    def _lines(self, cells: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
        aligned = [
            [_pad(cell, width, right=type_.is_numeric) for cell in column]
            for column, width, type_ in zip(cells, widths, self._types)
        ]
        self._out.writelines(f"{' | '.join(row).rstrip()}\n" for row in zip(*aligned))

    def _cells(self, batch: pa.RecordBatch) -> list[list[str]]:
        columns = [texts(array, type_) for array, type_ in zip(batch.columns, self._types)]
        return [[NULL_TEXT if cell is None else _printable(cell) for cell in column] for column in columns]

    def _header(self, cells: Sequence[Sequence[str]]) -> None:
        self._widths = [
            max([display_width(name), *map(display_width, column)])
            for name, column in zip(self._names, cells, strict=True)
        ]
        names = [
            _pad(name, width, right=t.is_numeric) for name, width, t in zip(self._names, self._widths, self._types)
        ]
        self._out.write(f"{' | '.join(names).rstrip()}\n{'-+-'.join('-' * width for width in self._widths)}\n")


class MarkdownFormat(TableFormat):
    """A Markdown table; `|` in a cell is escaped."""

    def _cells(self, batch: pa.RecordBatch) -> list[list[str]]:
        return [[cell.replace("|", "\\|") for cell in column] for column in super()._cells(batch)]

    def rows(self, batch: pa.RecordBatch) -> None:
        cells = self._cells(batch)
        if self._widths is None:
            self._header(cells)
        self._out.writelines(f"| {' | '.join(row)} |\n" for row in zip(*cells))

    def end(self) -> None:
        if self._widths is None:
            self._header([])

    def _header(self, cells: Sequence[Sequence[str]]) -> None:
        self._widths = []
        rule = ("---:" if type_.is_numeric else "---" for type_ in self._types)
        names = (name.replace("|", "\\|") for name in self._names)
        self._out.write(f"| {' | '.join(names)} |\n| {' | '.join(rule)} |\n")


class CsvFormat:
    """RFC 4180 with a header line; NULL is an empty field, an empty text `""`."""

    def __init__(self, out: Sink):
        self._out = out
        self._types: list[DataType] = []

    def begin(self, names: Sequence[str], types: Sequence[DataType]) -> None:
        self._types = list(types)
        self._out.write(",".join(map(_csv_text, names)) + "\n")

    def rows(self, batch: pa.RecordBatch) -> None:
        columns = []
        for array, type_ in zip(batch.columns, self._types):
            cells = texts(array, type_)
            quoted = [None if v is None else _csv_text(v) for v in cells] if type_.is_text else cells
            columns.append(quoted)
        self._out.writelines(",".join(cell or "" for cell in row) + "\n" for row in zip(*columns))

    def end(self) -> None: ...


def _csv_text(text: str) -> str:
    if text and not any(char in text for char in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


class JsonFormat:
    """An array of objects in one line, so that several results are lines of JSON; decimals are JSON numbers with all
    their digits."""

    def __init__(self, out: Sink):
        self._out = out
        self._keys: list[str] = []
        self._types: list[DataType] = []
        self._first = True

    def begin(self, names: Sequence[str], types: Sequence[DataType]) -> None:
        self._keys = [json.dumps(name, ensure_ascii=False) for name in names]
        self._types = list(types)
        self._out.write("[")

    def rows(self, batch: pa.RecordBatch) -> None:
        columns = [
            [f"{key}: {cell}" for cell in _json_cells(array, type_)]
            for key, array, type_ in zip(self._keys, batch.columns, self._types)
        ]
        for row in zip(*columns):
            self._out.write(("" if self._first else ", ") + "{" + ", ".join(row) + "}")
            self._first = False

    def end(self) -> None:
        self._out.write("]\n")


class VerticalFormat:
    """A line per value, a block per row: for rows that are wider than the screen."""

    def __init__(self, out: Sink):
        self._out = out
        self._names: list[str] = []
        self._types: list[DataType] = []
        self._count = 0

    def begin(self, names: Sequence[str], types: Sequence[DataType]) -> None:
        names = [_printable(name) for name in names]
        width = max(map(display_width, names), default=0)
        self._names, self._types = [_pad(name, width, right=False) for name in names], list(types)

    def rows(self, batch: pa.RecordBatch) -> None:
        columns = []
        for name, array, type_ in zip(self._names, batch.columns, self._types):
            cells = (NULL_TEXT if cell is None else _printable(cell) for cell in texts(array, type_))
            columns.append([f"{name} | {cell}".rstrip() + "\n" for cell in cells])
        for number, row in enumerate(zip(*columns), self._count + 1):
            self._out.write(f"-[ row {number:,} ]".ljust(24, "-") + "\n")
            self._out.writelines(row)
        self._count += batch.num_rows

    def end(self) -> None: ...


def _json_cells(array: pa.Array, type_: DataType) -> list[str]:
    if type_.is_float:
        # JSON has no number for these: null, as JavaScript writes them.
        return ["null" if text in (None, "nan", "inf", "-inf") else str(text) for text in texts(array, type_)]
    if type_.is_numeric or type_.kind is Kind.BOOLEAN:
        return [text or "null" for text in texts(array, type_)]
    return [json.dumps(text, ensure_ascii=False) for text in texts(array, type_)]


FORMATS: Final[dict[str, Any]] = {
    "table": TableFormat,
    "csv": CsvFormat,
    "json": JsonFormat,
    "markdown": MarkdownFormat,
    "vertical": VerticalFormat,
}
NAMES: Final = (*FORMATS, "parquet")
"""Formats that a user can choose; `output` writes Parquet, which is not a text."""


def table_width(columns: Sequence[tuple[str, DataType]], batch: pa.RecordBatch) -> int:
    """Width of a table with these rows, in columns of a screen."""
    widths = [
        max(
            [
                display_width(_printable(name)),
                *(display_width(_printable(cell or NULL_TEXT)) for cell in texts(array, type_)),
            ]
        )
        for (name, type_), array in zip(columns, batch.columns)
    ]
    return sum(widths) + 3 * (len(widths) - 1)


def _printable(text: str) -> str:
    return text if text.isprintable() else text.translate(_CONTROL)


def display_width(text: str) -> int:
    """The number of columns that a text without control characters takes on a terminal."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth  # its package takes 70 ms to import

    return get_cwidth(text)


def _pad(text: str, width: int, *, right: bool) -> str:
    blank = " " * (width - display_width(text))
    return blank + text if right else text + blank
