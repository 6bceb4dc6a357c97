"""Log segments as data and as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from ....errors import CorruptionError
from ....model.clock import format_timestamp
from ....model.codec.packing import unpack
from ....model.lazy_dataclass import dataclass
from ....model.store import Timestamp
from ....model.types import type_from_arrow
from ...files.filesystem import FileSystem
from ...log.wal_format import COLUMN_ID, EntryKind, LogEntry, SegmentHeader, decode_header, entry_parts, scan_entries
from ..check.check_log import entry_end
from ..files import read_file
from ..text import format_bytes, plural, python_text, table_lines

OpenEntry = Callable[[LogEntry], tuple[LogEntry, str]]
"""Returns the entry of rows within an entry, and what the outer one says: logs of replicas have kinds of their own."""
UNSET = "-"
"""A column that the row does not set."""


@dataclass(frozen=True, slots=True)
class EntrySummary:
    """One entry: `rows` is None for entries that are no rows; `what` is their op, what a load brings, the parts that a
    commit is of, or what `OpenEntry` says."""

    index: int
    offset: int
    size: int
    term: int
    timestamp: int
    durable_index: int
    kind: EntryKind
    rows: int | None
    what: str


@dataclass(frozen=True, slots=True)
class SegmentContents:
    """A log segment.

    Parameters
    ----------
    damage : str
        What is wrong behind the last entry; empty where nothing is.
    rows : list of list of str
        Of the first rows: entry, op, values.
    """

    path: str
    size: int
    header: SegmentHeader
    entries: list[EntrySummary]
    damage: str
    rows: list[list[str]]


def _as_it_is(entry: LogEntry) -> tuple[LogEntry, str]:
    return entry, ""


def read_segment(fs: FileSystem, path: str, rows: int, open_entry: OpenEntry = _as_it_is) -> SegmentContents:
    """Read a segment up to its end or to the first damage; `CorruptionError` where its header is damaged."""
    data = memoryview(read_file(fs, path))
    header = decode_header(data, path)
    found, damage = good_entries(data, header, path)
    entries = []
    shown: list[list[str]] = []
    place = header.length
    for entry in found:
        after = entry_end(place, entry)
        within, said = open_entry(entry)
        summary = _summary(within, place, after - place, header)
        what = ", ".join(filter(None, (summary.what, said)))
        entries.append(replace(summary, kind=entry.kind, what=what))
        if entry.kind is not EntryKind.LOAD and len(shown) < rows:
            shown += _row_texts(within, header, rows - len(shown))
        place = after
    return SegmentContents(path, len(data), header, entries, damage, shown)


def good_entries(data: memoryview, header: SegmentHeader, path: str) -> tuple[list[LogEntry], str]:
    """The good entries from the start, and what is wrong behind them."""
    try:
        scan = scan_entries(data, header.length, header.first_index, path, is_last=True)
    except CorruptionError as error:
        # Damage in front of entries that prove it was durable: show what lies before.
        match = re.search(r"at offset (\d+)$", error.place)
        end = int(match[1]) if match else header.length
        scan = scan_entries(data[:end], header.length, header.first_index, path, is_last=True)
        message = str(error).removeprefix(f"{error.path}: ")
        return scan.entries, f"damaged: {message}"
    if scan.torn:
        return scan.entries, f"torn: {len(data) - scan.end:,} bytes at offset {scan.end:,} are no entry"
    return scan.entries, ""


def _summary(entry: LogEntry, place: int, size: int, header: SegmentHeader) -> EntrySummary:
    rows: int | None = None
    if entry.kind is EntryKind.COMMIT:
        parts_of = unpack(entry.body)
        what = ", ".join(f"{tablet} to entry {index}" for tablet, index in sorted(parts_of.items()))
    elif entry.kind is not EntryKind.LOAD:
        parts = entry_parts(entry, header.schema)
        rows = sum(part.row_count for part in parts)
        what = ", ".join(part.op.name for part in parts)
    else:
        rowsets = unpack(entry.body)
        loaded = sum(rowset["row_count"] for rowset in rowsets)
        what = f"{plural(len(rowsets), 'rowset')} with {plural(loaded, 'row')}"
    return EntrySummary(
        entry.index, place, size, entry.term, entry.timestamp, entry.durable_index, entry.kind, rows, what
    )


def _row_texts(entry: LogEntry, header: SegmentHeader, limit: int) -> list[list[str]]:
    found: list[list[str]] = []
    for part in entry_parts(entry, header.schema):
        shown = part.rows.slice(0, limit - len(found))
        columns = [[UNSET] * shown.num_rows for _ in header.schema]
        for place, array in zip(part.places, shown.columns):
            type_ = type_from_arrow(array.type)
            isset = part.isset.get(place, [True] * shown.num_rows)
            columns[place] = [python_text(type_, v) if s else UNSET for v, s in zip(array.to_pylist(), isset)]
        found += [[str(entry.index), part.op.name, *values] for values in zip(*columns)]
    return found


def describe_segment(contents: SegmentContents) -> str:
    """Header, entries and first rows, for a person."""
    header = contents.header
    lines = [
        f"log segment {contents.path}",
        f"  size         {format_bytes(contents.size)}",
        f"  first entry  {header.first_index:,}",
        f"  columns      {', '.join(_column(field) for field in header.schema) or '-'}",
        f"  entries      {len(contents.entries):,}",
        "",
        *table_lines(
            ["entry", "offset", "bytes", "term", "timestamp", "durable", "kind", "rows", "what"],
            [
                [
                    e.index,
                    e.offset,
                    e.size,
                    e.term,
                    format_timestamp(Timestamp(e.timestamp)),
                    e.durable_index,
                    e.kind.name,
                    "-" if e.rows is None else e.rows,
                    e.what,
                ]
                for e in contents.entries
            ],
            left=["timestamp", "kind", "what"],
        ),
    ]
    if contents.damage:
        lines.append(contents.damage)
    if contents.rows:
        names = [field.name for field in header.schema]
        lines += ["", f"first {plural(len(contents.rows), 'row')}"]
        lines += table_lines(["entry", "op", *names], contents.rows, left=["op", *names])
    return "\n".join(lines)


def _column(field: pa.Field) -> str:
    number = (field.metadata or {}).get(COLUMN_ID, b"?").decode()
    return f"{field.name} {type_from_arrow(field.type)} (id {number})"
