"""Column files and Bloom filters as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....errors import CorruptionError
from ....model.codec.packing import unpack
from ....model.lazy_dataclass import dataclass
from ....model.schema import Encoding, Table
from ...columns.column_file import (
    HEADER,
    ROW_GROUP_ROWS,
    TAIL,
    Footer,
    check_footer,
    check_header,
    footer_size,
)
from ...columns.column_reader import ColumnReader
from ...files.filesystem import FileSystem
from ...files.page_cache import PageCache
from ...keys.bloom import MAGIC as BLOOM_MAGIC
from ...keys.bloom import BloomReader
from ..files import read_file
from ..text import NULL, format_bytes, plural, python_text, table_lines, value_text
from .column_footer import ColumnFileFacts, file_facts

COMPRESSIONS = ("NONE", "LZ4", "ZSTD", "GZIP", "BZ2")
_LAYOUTS = ("as they are", "bits", "runs", "fronts", "lengths")
"""By the numbers in page records, which `column_file` draws."""


@dataclass(frozen=True, slots=True)
class ColumnFileContents:
    """A column file.

    Parameters
    ----------
    column : str or None
        Name of column and table, where a catalog knows them.
    dictionary : list or None
        Entries, where the encoding is DICT and they can be read.
    states : list of str
        Per page: "ok", or what is wrong with it.
    rows : list of str
        The first values.
    """

    path: str
    facts: ColumnFileFacts
    footer: Footer
    column: str | None
    dictionary: list[Any] | None
    states: list[str]
    rows: list[str]


def read_column_file(fs: FileSystem, path: str, table: Table | None, rows: int) -> ColumnFileContents:
    """Read a column file: all of its pages once, to say whether they are whole, and its first rows.

    `CorruptionError` where header or footer are damaged.
    """
    facts = file_facts(fs, path)
    cache = PageCache(0)
    reader = ColumnReader(cache.handles(fs), path, facts.column, facts.type, facts.rows, cache)
    footer = reader.footer
    names = {} if table is None else {c.id: f"{c.name} of table {table.name}" for c in table.schema.columns}
    dictionary: list[Any] | None = None
    if footer.dictionary is not None:
        try:
            dictionary = reader.dictionary.to_pylist()
        except CorruptionError:
            dictionary = None  # shown as the state of each page
    shown: list[str] = []
    states = []
    for number in range(len(footer.pages)):
        try:
            vector = reader.page(number)
        except CorruptionError as error:
            states.append(damage(error))
            if len(shown) < rows:
                shown.append(f"(page {number} is damaged)")
            continue
        states.append("ok")
        wanted = vector.slice(0, min(len(vector), max(0, rows - len(shown))))
        shown += [python_text(facts.type, value) for value in wanted.to_arrow().to_pylist()]
    reader.close()
    return ColumnFileContents(path, facts, footer, names.get(facts.column), dictionary, states, shown[:rows])


def describe_column_file(contents: ColumnFileContents) -> str:
    """Header, footer, page table and first rows, for a person."""
    facts, footer = contents.facts, contents.footer
    stored, raw = int(footer.pages["stored"].sum()), int(footer.pages["raw"].sum())
    sketch = footer.sketch
    type_ = facts.type
    lines = [
        f"column file {contents.path}",
        f"  size         {format_bytes(facts.size)}, format version {facts.version}",
        f"  column       {contents.column or 'of a table that is not known here'} (id {facts.column})",
        f"  type         {type_}",
        f"  encoding     {footer.encoding.value}",
        f"  rows         {facts.rows:,}, {sketch.null_count:,} of them NULL, about "
        f"{plural(round(sketch.distinct_count()), 'distinct value')}, "
        f"{value_text(type_, sketch.low)} to {value_text(type_, sketch.high)}",
        f"  pages        {len(footer.pages):,} of up to {plural(footer.page_rows, 'row')}, {format_bytes(stored)}, "
        f"{format_bytes(raw)} when unpacked",
    ]
    if footer.dictionary is not None:
        record = footer.dictionary[0]
        lines.append(
            f"  dictionary   {plural(footer.entries, 'entry', 'entries')} at offset {int(record['offset']):,}, "
            f"{format_bytes(int(record['stored']))}, {format_bytes(int(record['raw']))} when unpacked "
            f"({_compression(record)})"
        )
    lines.append(f"  footer       {format_bytes(facts.footer_bytes)} at offset {facts.footer_offset:,}")
    if footer.firsts is not None:
        lines.append(f"  key index    {plural(len(footer.firsts), 'value')}")
    header = [
        "page",
        "offset",
        "rows",
        "stored",
        "unpacked",
        "compression",
        "layout",
        "width",
        "nulls",
        "min",
        "max",
        "state",
    ]
    lines += ["", *table_lines(header, _page_rows(contents), left=["compression", "layout", "min", "max", "state"])]
    lines += ["", f"first {plural(len(contents.rows), 'row')}"]
    lines += table_lines(["row", "value"], enumerate(contents.rows), left=["value"])
    return "\n".join(lines)


def _page_rows(contents: ColumnFileContents) -> Iterator[list[object]]:
    for number, record in enumerate(contents.footer.pages):
        low, high = _page_bounds(contents, number)
        yield [
            number,
            int(record["offset"]),
            contents.footer.page_length(number),
            int(record["stored"]),
            int(record["raw"]),
            _compression(record),
            named(_LAYOUTS, int(record["layout"])),
            int(record["width"]) or "-",
            int(record["nulls"]),
            low,
            high,
            contents.states[number],
        ]


def _page_bounds(contents: ColumnFileContents, number: int) -> tuple[str, str]:
    """Least and greatest value of a page as the footer has them."""
    footer, type_ = contents.footer, contents.facts.type
    record = footer.pages[number]
    if int(record["nulls"]) == footer.page_length(number):
        return NULL, NULL
    if footer.encoding is Encoding.DICT:
        low, high = int(record["low"]), int(record["high"])
        if contents.dictionary is None:
            return f"code {low}", f"code {high}"
        return python_text(type_, contents.dictionary[low]), python_text(type_, contents.dictionary[high])
    if footer.bounds is not None:
        bounds = footer.bounds[number]
        return ("-", "-") if bounds is None else (_bound_text(type_, bounds[0]), _bound_text(type_, bounds[1]))
    return value_text(type_, int(record["low"])), value_text(type_, int(record["high"]))


def _bound_text(type_: Any, bound: Any) -> str:
    return python_text(type_, bound) if type_.is_text else value_text(type_, bound)


def _compression(record: Any) -> str:
    return named(COMPRESSIONS, int(record["compression"]))


def named(names: Sequence[str], number: int) -> str:
    """Name for a number in a record."""
    return names[number] if number < len(names) else f"unknown {number}"


def damage(error: CorruptionError) -> str:
    """Description of the damage, without file and position."""
    return str(error).removeprefix(f"{error.path}: {error.place}: ")


# ---- Bloom filters -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BloomChunk:
    """`filled` is the share of bits that are set; None where the chunk is damaged, as `state` says then."""

    offset: int
    size: int
    keys: int
    filled: float | None
    state: str


@dataclass(frozen=True, slots=True)
class BloomFilterContents:
    """A Bloom filter."""

    path: str
    size: int
    version: int
    rows: int
    chunks: list[BloomChunk]


def read_bloom_filter(fs: FileSystem, path: str) -> BloomFilterContents:
    """Read all of a Bloom filter; `CorruptionError` where header or footer are damaged."""
    data = read_file(fs, path)
    check_header(data, path, BLOOM_MAGIC)
    tail = data[-TAIL.size :]
    length = footer_size(tail, len(data), path)
    footer = data[len(data) - TAIL.size - length : len(data) - TAIL.size]
    check_footer(footer, tail, path)
    fields = unpack(footer)
    cache = PageCache(0)
    reader = BloomReader(cache.handles(fs), path, fields["rows"], cache)
    chunks = []
    place = HEADER.size
    for number, blocks in enumerate(fields["blocks"]):
        keys = min(ROW_GROUP_ROWS, fields["rows"] - number * ROW_GROUP_ROWS)
        filled, state = None, "ok"
        try:
            bits = np.unpackbits(np.frombuffer(reader.read_chunk(number), np.uint8))
            filled = float(bits.mean())
        except CorruptionError as error:
            state = damage(error)
        chunks.append(BloomChunk(place, blocks * 32, keys, filled, state))
        place += blocks * 32
    reader.close()
    return BloomFilterContents(path, len(data), HEADER.unpack(data[: HEADER.size])[1], fields["rows"], chunks)


def describe_bloom_filter(contents: BloomFilterContents) -> str:
    """Header and chunks, for a person."""
    header = ["chunk", "offset", "bytes", "keys", "bits per key", "bits set", "state"]
    rows = [
        [
            number,
            chunk.offset,
            chunk.size,
            chunk.keys,
            f"{8 * chunk.size / chunk.keys:.1f}",
            "-" if chunk.filled is None else f"{chunk.filled:.1%}",
            chunk.state,
        ]
        for number, chunk in enumerate(contents.chunks)
    ]
    lines = [
        f"Bloom filter {contents.path}",
        f"  size         {format_bytes(contents.size)}, format version {contents.version}",
        f"  keys         {contents.rows:,}",
        "",
        *table_lines(header, rows, left=["state"]),
    ]
    return "\n".join(lines)
