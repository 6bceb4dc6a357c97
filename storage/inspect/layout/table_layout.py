"""Layout of a table's rowsets over its keys, as data: `layout.layout_text` and `layout.layout_svg` draw it.

    keys of the tablet     0 ─────────────────────────── 1
    rowset 1               ├────────────┤
    rowset 2                     ├──────────────────────┤
    height                 1     2      1

An insert must search every rowset whose interval contains its key. The *average rowset height* is their expected number
for a key drawn at random among the rows (rowset compaction lowers it: Kudu paper, section 4.10); each rowset is taken
to have its rows spread evenly over its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....errors import UnknownTable, did_you_mean
from ....model.lazy_dataclass import dataclass
from ....model.partitions.partition import Partitioner
from ....model.schema import Table
from ....model.types import DataType
from ....model.vectors.vector import Array
from ...files.filesystem import FileSystem
from ...rowsets.rowset_metadata import RowSetMetadata
from ...tables.catalog import Catalog
from ...tablet.tablet_metadata import TabletMetadata
from ..text import key_text

_KEY_BYTES = 16
"""Bytes after the common prefix of all keys that determine a key's position."""


@dataclass(frozen=True, slots=True)
class RowSetSpan:
    """One rowset: `start` and `stop` are its place among the tablet's keys, from 0 to 1; keys are text for people."""

    id: int
    rows: int
    bytes: int
    min_key: str
    max_key: str
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class TabletLayout:
    """The rowsets of one tablet, by ascending least key."""

    tablet_id: str
    partition: str
    rowsets: tuple[RowSetSpan, ...]
    average_height: float

    @property
    def rows(self) -> int:
        return sum(rowset.rows for rowset in self.rowsets)

    @property
    def bytes(self) -> int:
        return sum(rowset.bytes for rowset in self.rowsets)


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The tablets of a table."""

    name: str
    key: tuple[str, ...]
    tablets: tuple[TabletLayout, ...]

    @property
    def average_height(self) -> float:
        """Over all tablets, weighted by their rows; 0 without rows."""
        rows = sum(tablet.rows for tablet in self.tablets)
        return sum(t.average_height * t.rows for t in self.tablets) / rows if rows else 0.0


def table_layout(fs: FileSystem, directory: str, name: str) -> TableLayout:
    """The layout of a table as the metadata on disk has it: rows that are only in the log do not show.

    Only files that are replaced as a whole are read, so the store may be open. `UnknownTable` where there is none of
    that name.
    """
    directory = directory.rstrip("/") or "/"
    entries = Catalog.read(fs, f"{directory}/catalog").entries
    entry = entries.get(name)
    if entry is None:
        raise UnknownTable(f"table {name} does not exist{did_you_mean(name, entries)}")
    table = entry.table
    partitions = Partitioner(table.schema, table.partitions).partitions
    tablets = []
    for tablet_id, partition in zip(entry.tablet_ids, partitions):
        metadata = TabletMetadata.read(fs, f"{directory}/tables/{table.id}/{tablet_id}")
        tablets.append(_tablet_layout(table, metadata, partition.describe()))
    return TableLayout(name, tuple(column.name for column in table.schema.key), tuple(tablets))


def _tablet_layout(table: Table, metadata: TabletMetadata, partition: str) -> TabletLayout:
    rowsets = sorted(metadata.rowsets, key=lambda r: (r.min_key, r.max_key, r.id))
    starts, stops = key_places([r.min_key for r in rowsets], [r.max_key for r in rowsets])
    types = [column.type for column in table.schema.key]
    spans = [_span(types, rowset, float(start), float(stop)) for rowset, start, stop in zip(rowsets, starts, stops)]
    height = average_height(starts, stops, np.array([r.row_count for r in rowsets], np.float64))
    return TabletLayout(metadata.tablet_id, partition, tuple(spans), height)


def _span(types: Sequence[DataType], rowset: RowSetMetadata, start: float, stop: float) -> RowSetSpan:
    least, greatest = key_text(types, rowset.min_key), key_text(types, rowset.max_key)
    return RowSetSpan(rowset.id, rowset.row_count, rowset.data_bytes, least, greatest, start, stop)


def key_places(mins: Sequence[bytes], maxs: Sequence[bytes]) -> tuple[Array, Array]:
    """Positions of encoded keys between the least and the greatest of all, from 0 to 1: two ndarrays of float64.

    >>> key_places([b"aa", b"ac"], [b"ac", b"ae"])[1].tolist()
    [0.5, 1.0]
    """
    every = [*mins, *maxs]
    if not every:
        return np.empty(0), np.empty(0)
    least, greatest = min(every), max(every)
    shared = 0
    while shared < min(len(least), len(greatest)) and least[shared] == greatest[shared]:
        shared += 1
    numbers = [int.from_bytes(key[shared : shared + _KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big") for key in every]
    low, width = min(numbers), max(numbers) - min(numbers)
    places = np.array([(number - low) / width if width else 0.0 for number in numbers])
    return places[: len(mins)], places[len(mins) :]


def average_height(starts: Array, stops: Array, rows: Array) -> float:
    """Expected number of intervals that contain a row drawn at random; 0 if there are none.

    Parameters
    ----------
    starts, stops : ndarray of float64, shape (n_rowsets,)
        Intervals, both ends inclusive.
    rows : ndarray of float64, shape (n_rowsets,)
        Number of rows of each, spread evenly.

    Examples
    --------
    >>> halves = np.array([0.0, 0.5]), np.array([0.4, 1.0])
    >>> average_height(*halves, np.array([10.0, 10.0]))
    1.0
    >>> average_height(np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([10.0, 10.0]))
    2.0
    """
    total = float(rows.sum()) if len(rows) else 0.0
    if not total:
        return 0.0
    edges = np.unique(np.concatenate([starts, stops]))
    first, last = np.searchsorted(edges, starts), np.searchsorted(edges, stops)
    is_point = first == last
    # Open stretches between edges: how many intervals reach over each, and how many rows lie in it.
    heights = _covered(first, last, np.ones(len(rows)), len(edges))
    densities = np.divide(rows, stops - starts, out=np.zeros(len(rows)), where=~is_point)
    weights = _covered(first, last, densities, len(edges))[:-1] * np.diff(edges)
    weighted = float((heights[:-1] * weights).sum())
    # A rowset of one key lies on an edge, which the neighbours' ends belong to.
    points = edges[first[is_point]]
    over = np.searchsorted(np.sort(starts), points, "right") - np.searchsorted(np.sort(stops), points, "left")
    return (weighted + float((over * rows[is_point]).sum())) / total


def _covered(first: Array, last: Array, amounts: Array, edges: int) -> Array:
    """The sum of amounts over each stretch behind an edge."""
    change = np.zeros(edges)
    np.add.at(change, first, amounts)
    np.subtract.at(change, last, amounts)
    return np.asarray(np.cumsum(change))
