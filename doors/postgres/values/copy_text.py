"""COPY in the text and CSV formats: rows to messages, and data to columns.

Text: fields between tabs, `\\N` for NULL, a backslash before what would be read as something else. CSV: fields between
commas, in quotes if they need them, NULL as nothing at all. Fields are joined, escaped and split by Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from ....errors import DataError, InvalidText
from ....model.arrow_arrays import arrow_array
from ....model.types import STRING, DataType, Kind, bytes_of
from .columns import binary_array, cast_array, texts
from .rows import COPY_DATA

_ESCAPES: Final = (
    ("\\", "\\\\"),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("\b", "\\b"),
    ("\f", "\\f"),
    ("\v", "\\v"),
)
BLOCK_BYTES: Final = 8 << 20
_END: Final = b"\\."
_MOST_ROW_BYTES: Final = 1 << 28


# ---- out -------------------------------------------------------------------------------------------------------------


def text_rows(batch: pa.RecordBatch, types: Sequence[DataType], delimiter: str, null: str) -> bytes:
    """The CopyData messages of a batch in the text format."""
    columns = []
    for type_, array in zip(types, batch.columns, strict=True):
        found = texts(type_, array)
        if type_.is_text:
            found = _escaped(found, delimiter)
        columns.append(pc.fill_null(found, null) if found.null_count else found)
    return _lines(columns, delimiter)


def _escaped(array: pa.Array, delimiter: str) -> pa.Array:
    for plain, escaped in (*_ESCAPES, (delimiter, "\\" + delimiter))[: len(_ESCAPES) + (delimiter != "\t")]:
        if pc.any(pc.match_substring(array, plain)).as_py():
            array = pc.replace_substring(array, plain, escaped)
    return array


def csv_rows(
    batch: pa.RecordBatch, types: Sequence[DataType], delimiter: str, null: str, quote: str, escape: str
) -> bytes:
    """The CopyData messages of a batch in the CSV format."""
    columns = []
    for type_, array in zip(types, batch.columns, strict=True):
        found = _quoted(texts(type_, array), delimiter, null, quote, escape, len(batch.columns))
        columns.append(pc.fill_null(found, null) if found.null_count else found)
    return _lines(columns, delimiter)


def csv_header(names: Sequence[str], delimiter: str, quote: str, escape: str) -> str:
    """The line with the columns' names."""
    return delimiter.join(_quoted(pa.array(list(names), pa.string()), delimiter, "", quote, escape, 2).to_pylist())


def _quoted(array: pa.Array, delimiter: str, null: str, quote: str, escape: str, columns: int) -> pa.Array:
    special = "[" + re.escape(delimiter + quote) + "\\r\\n]"
    needs = pc.or_(pc.match_substring_regex(array, special), pc.equal(array, null))
    if columns == 1:
        needs = pc.or_(needs, pc.equal(array, "\\."))
    if not pc.any(needs).as_py():
        return array
    inner = array if escape == quote else pc.replace_substring(array, escape, escape * 2)
    inner = pc.replace_substring(inner, quote, escape + quote)
    return pc.if_else(needs, pc.binary_join_element_wise(quote, inner, quote, ""), array)


def _lines(columns: Sequence[pa.Array], delimiter: str) -> bytes:
    """Rows of texts as messages: `d`, a length, the fields with delimiters between them, a line feed."""
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, delimiter), "\n", "")
    lengths = np.diff(np.frombuffer(lines.buffers()[1], np.int32)[: len(lines) + 1])
    head = np.empty((len(lines), 5), np.uint8)
    head[:, 0] = COPY_DATA[0]
    head[:, 1:] = (lengths + 4).astype(">i4").view(np.uint8).reshape(-1, 4)
    heads = binary_array(np.full(len(lines), 5, np.int32), head.reshape(-1))
    whole = pc.binary_join_element_wise(heads, lines.cast(pa.binary()), b"")
    return bytes(whole.buffers()[2])[: int(np.frombuffer(whole.buffers()[1], np.int32)[len(lines)])]


# ---- in --------------------------------------------------------------------------------------------------------------


def read_text(
    data: BinaryIO, names: Sequence[str], types: Sequence[DataType], delimiter: str, null: str, header: bool
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of data in the text format. Raises `DataError` with the line."""
    line = 1
    for block in _blocks(data):
        if header:
            _, _, block = block.partition(b"\n")
            header = False
        fields = _split(block, len(names), delimiter, line)
        arrays = [
            _converted(_unescaped(array, null), type_, name, line)
            for array, type_, name in zip(fields, types, names, strict=True)
        ]
        if len(fields[0]):
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))
        line += block.count(b"\n")


def _blocks(data: BinaryIO) -> Iterator[bytes]:
    """Pieces of whole lines; the line `\\.` ends the data."""
    rest = b""
    while piece := data.read(BLOCK_BYTES):
        whole = rest + piece
        cut = whole.rfind(b"\n") + 1
        # A line feed behind an odd number of backslashes belongs to the value.
        while cut and _backslashes(whole, cut - 1) % 2:
            cut = whole.rfind(b"\n", 0, cut - 1) + 1
        if not cut and len(whole) > _MOST_ROW_BYTES:
            raise DataError("a row of COPY data is too long")
        block, rest = whole[:cut], whole[cut:]
        if (end := _end_of_data(block)) is not None:
            if end:
                yield block[:end]
            return
        if block:
            yield block
    end = _end_of_data(rest)
    if rest and end != 0:
        yield rest if end is None else rest[:end]


def _backslashes(data: bytes, end: int) -> int:
    count = 0
    while end - count > 0 and data[end - count - 1 : end - count] == b"\\":
        count += 1
    return count


def _end_of_data(block: bytes) -> int | None:
    match = re.search(rb"(?:\A|\n)(?=\\\.\r?(?:\n|\Z))", block) if _END in block else None
    return None if match is None else match.end()


def _split(block: bytes, columns: int, delimiter: str, line: int) -> list[pa.Array]:
    mark = delimiter.encode()
    if b"\\" + mark in block or b"\\\n" in block:
        return _split_escaped(block, columns, mark, line)
    fields = {f"f{i}": pa.string() for i in range(columns)}
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(block),
            pa_csv.ReadOptions(column_names=list(fields), block_size=len(block) + 1, use_threads=False),
            pa_csv.ParseOptions(
                delimiter=delimiter, quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False
            ),
            pa_csv.ConvertOptions(column_types=fields, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        _refuse_ragged(block, columns, mark, line)
        raise DataError(f"COPY data, from line {line}: {str(error).splitlines()[0]}") from None
    return [column.combine_chunks() for column in table.columns]


def _refuse_ragged(block: bytes, columns: int, mark: bytes, line: int) -> None:
    for number, text in enumerate(block.splitlines(), line):
        if (found := text.count(mark) + 1) != columns:
            raise DataError(f"COPY data, line {number}: {columns} columns expected, {found} found")


def _split_escaped(block: bytes, columns: int, mark: bytes, line: int) -> list[pa.Array]:
    """Splits data in which a backslash precedes a delimiter or a line end, which few programs write."""
    unit = rb"(?:[^\\\n%b]|\\.)*" % re.escape(mark)
    row = re.compile(rb"(%b(?:%b%b)*)\r?(?:\n|\Z)" % (unit, re.escape(mark), unit), re.S)
    cells: list[list[str]] = [[] for _ in range(columns)]
    field = re.compile(unit, re.S)
    for number, match in enumerate(row.finditer(block), line):
        if match.start() == len(block):
            break
        parts, place, text = [], 0, match[1]
        while True:
            found = field.match(text, place)
            assert found is not None
            parts.append(found[0].replace(b"\\" + mark, b"\\x%02x" % mark[0]).replace(b"\\\n", b"\\n"))
            place = found.end() + 1
            if place > len(text):
                break
        if len(parts) != columns:
            raise DataError(f"COPY data, line {number}: {columns} columns expected, {len(parts)} found")
        for cell, part in zip(cells, parts, strict=True):
            cell.append(part.decode(errors="strict"))
    return [arrow_array(cell, pa.string()) for cell in cells]


_ESCAPE: Final = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.S)
_MEANINGS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescape(match: re.Match[str]) -> str:
    found = match[1]
    if found in _MEANINGS:
        return _MEANINGS[found]
    if found[0] == "x" and len(found) > 1:
        return chr(int(found[1:], 16))
    return chr(int(found, 8) & 0xFF) if found[0] in "01234567" else found


def _unescaped(array: pa.Array, null: str) -> pa.Array:
    is_null = pc.equal(array, null)
    escaped = pc.and_not(pc.match_substring(array, "\\"), is_null)
    if pc.any(escaped).as_py():
        plain = [_plain(value) for value in array.filter(escaped).to_pylist()]
        array = pc.replace_with_mask(array, escaped, pa.array(plain, pa.string()))
    return pc.if_else(is_null, None, array) if pc.any(is_null).as_py() else array


def _plain(value: str) -> str:
    """A value without its escapes. Those of bytes above 127 are parts of UTF-8 characters."""
    plain = _ESCAPE.sub(_unescape, value)
    if not re.search(r"\\(?:x[89A-Fa-f]|[23][0-7]{2})", value):
        return plain
    data = re.sub(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", lambda m: _unescape_byte(m[1]), value.encode(), flags=re.S)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidText("COPY data holds an escape that is not UTF-8") from None


def _unescape_byte(found: bytes) -> bytes:
    text = found.decode(errors="replace")
    if len(text) == 1 and text not in "01234567":
        return _MEANINGS.get(text, text).encode()
    return bytes([int(text[1:], 16) if text[0] == "x" else int(text, 8) & 0xFF])


def _converted(array: pa.Array, type_: DataType, name: str, line: int) -> pa.Array:
    if type_.kind is Kind.STRING:
        return array
    try:
        if type_.kind is Kind.BINARY:
            values = [None if value is None else bytes_of(value) for value in array.to_pylist()]
            return arrow_array(values, pa.binary())
        return cast_array(type_, STRING, array)
    except DataError as error:
        raise type(error)(f"COPY data, from line {line}, column {name}: {error}") from None
