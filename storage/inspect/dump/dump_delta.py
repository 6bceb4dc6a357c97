"""Delta files as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....errors import CorruptionError
from ....model.clock import format_timestamp
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....model.store import Timestamp
from ...columns.column_file import HEADER, TAIL, footer_size
from ...deltas.delta_file import DeltaFile, DeltaStatistics
from ...deltas.delta_format import BlockRecord, DeltaFooter
from ...deltas.deltas import DeltaColumn, DeltaKind, Deltas
from ...files.filesystem import FileSystem
from ...files.page_cache import PageCache
from ..files import read_file
from ..text import format_bytes, plural, python_text, table_lines
from .dump_column import COMPRESSIONS, damage, named


@dataclass(frozen=True, slots=True)
class DeltaFileContents:
    """A delta file.

    Parameters
    ----------
    version : int
        Of the format.
    names : dict of int to str
        Of the columns that the table has today, by id.
    states : list of list of str
        Per block, of its head and of each column: "ok", or what is wrong with it.
    deltas : list of list of str
        Of the first deltas: row, time, kind, what it sets.
    """

    path: str
    size: int
    version: int
    footer_bytes: int
    footer: DeltaFooter
    statistics: DeltaStatistics
    names: dict[int, str]
    states: list[list[str]]
    deltas: list[list[str]]


def read_delta_file(fs: FileSystem, path: str, table: Table | None, limit: int) -> DeltaFileContents:
    """Read a delta file: all of its blocks once, to say whether they are whole, and its first deltas.

    `CorruptionError` where header or footer are damaged.
    """
    cache = PageCache(0)
    file = DeltaFile(cache.handles(fs), path, None, cache)
    footer = file.footer
    names = {} if table is None else {column.id: column.name for column in table.schema.columns}
    states = []
    shown: list[list[str]] = []
    for number in range(len(footer.blocks)):
        deltas, state = _read_block(file, number)
        states.append(state)
        if len(shown) < limit:
            damaged = ["?", "", "", f"(block {number} is damaged)"]
            shown += [damaged] if deltas is None else _delta_texts(deltas, footer, names, limit - len(shown))
    file.close()
    data = read_file(fs, path)
    version = HEADER.unpack(data[: HEADER.size])[1]
    footer_bytes = footer_size(data[-TAIL.size :], len(data), path)
    return DeltaFileContents(path, len(data), version, footer_bytes, footer, file.statistics, names, states, shown)


def _read_block(file: DeltaFile, number: int) -> tuple[Deltas | None, list[str]]:
    """Undamaged parts of a block, and the state of each of its parts; None if its head is damaged."""
    found: Deltas | None = None
    states = []
    columns: dict[int, DeltaColumn] = {}
    for wanted in ((), *((column,) for column in file.footer.blocks[number].columns)):
        try:
            found = file.read_block(number, wanted)
            columns.update(found.columns)
            states.append("ok")
        except CorruptionError as error:
            states.append(damage(error))
    return None if found is None else replace(found, columns=columns), states


def _delta_texts(deltas: Deltas, footer: DeltaFooter, names: dict[int, str], limit: int) -> list[list[str]]:
    count = min(limit, len(deltas))
    values: list[list[str]] = [[] for _ in range(count)]
    for column, given in sorted(deltas.columns.items()):
        name = names.get(column, f"column {column}")
        for place, value in zip(given.places[:count].tolist(), given.values[:count].to_pylist()):
            if place < count:
                values[place].append(f"{name} = {python_text(footer.types[column], value)}")
    return [
        [f"{row:,}", _moment(timestamp), _kind(kind), ", ".join(sets)]
        for row, timestamp, kind, sets in zip(
            deltas.rows[:count].tolist(), deltas.timestamps[:count].tolist(), deltas.kinds[:count].tolist(), values
        )
    ]


def describe_delta_file(contents: DeltaFileContents) -> str:
    """Header, footer, blocks and first deltas, for a person."""
    footer, found = contents.footer, contents.statistics
    updates = found.count - found.deletes - found.reinserts
    lines = [
        f"delta file {contents.path}",
        f"  size         {format_bytes(contents.size)}, format version {contents.version}",
        f"  leads        {_direction(contents.path)}",
        f"  deltas       {found.count:,} of the rows {footer.blocks[0].first_row:,} to {footer.blocks[-1].last_row:,}: "
        f"{plural(updates, 'UPDATE')}, {plural(found.deletes, 'DELETE')}, {plural(found.reinserts, 'REINSERT')}",
        f"  oldest       {_moment(found.oldest)}",
        f"  newest       {_moment(found.newest)}",
        *_column_lines(contents),
        f"  footer       {format_bytes(contents.footer_bytes)} at offset "
        f"{contents.size - TAIL.size - contents.footer_bytes:,}",
        "",
        *_block_lines(footer.blocks, contents.states),
        "",
        f"first {plural(len(contents.deltas), 'delta')}",
        *table_lines(["row", "time", "kind", "sets"], contents.deltas, left=["time", "kind", "sets"]),
    ]
    return "\n".join(lines)


def _direction(path: str) -> str:
    name = path.rpartition("/")[2]
    if "-undo-" in name:
        return "back (UNDO)"
    return "forth (REDO)" if "-redo-" in name else "back or forth, its name does not say"


def _column_lines(contents: DeltaFileContents) -> list[str]:
    return [
        f"  column       {contents.names.get(column, 'not known in the table')} (id {column}), {type_}: "
        f"{plural(contents.statistics.updates[column], 'value')}"
        for column, type_ in contents.footer.types.items()
    ]


def _block_lines(blocks: Sequence[BlockRecord], states: Sequence[Sequence[str]]) -> list[str]:
    header = ["block", "from", "to", "deltas", "DELETE", "REINSERT", "part", "offset", "stored", "unpacked"]
    header += ["compression", "values", "state"]
    rows: list[list[object]] = []
    for number, (block, state) in enumerate(zip(blocks, states)):
        parts = [("head", "-", block.head), *((f"id {c}", values, part) for c, (values, part) in block.columns.items())]
        for (name, values, part), found in zip(parts, state):
            counts = [block.first_row, block.last_row, block.count, block.deletes, block.reinserts]
            about: list[object] = [number, *counts] if name == "head" else [""] * (1 + len(counts))
            stored = [part.offset, part.stored, part.raw, named(COMPRESSIONS, part.compression)]
            rows.append([*about, name, *stored, values, found])
    return table_lines(header, rows, left=["part", "compression", "state"])


def _kind(code: int) -> str:
    return DeltaKind(code).name if code in DeltaKind._value2member_map_ else f"kind {code}"


def _moment(timestamp: int) -> str:
    return format_timestamp(Timestamp(timestamp))
