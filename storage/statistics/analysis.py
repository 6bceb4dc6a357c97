"""ANALYZE: statistics of rowsets with deltas, stored outside the tablets, because column files have none of their
deltas.

    DIR/tables/<table id>/statistics      a checked file:
        {tablet id: {rowset id: {column id: [name of the column's file, sketch]}}}

Flushes and compactions write sketches into the column files (`columns.sketch`). These ignore later updates and
deletions. ANALYZE flushes memory, reads the latest state of rowsets with deltas, and stores their sketches, which
replace those of the files. They are used while the rowset has the same file for the column: a compaction that merges
deltas into base data writes newer ones.

The file has no data of rows: a damaged one is ignored.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from ...errors import TabletGone
from ...model import arrow_functions as pc
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Schema, Table
from ...model.store import AnalyzeResult, ColumnStorage, ScanCounters, TableStorage
from ...model.types import DataType
from ..columns.sketch import ColumnSketch, SketchBuilder
from ..files.checked_file import read_checked, replace_checked
from ..files.filesystem import FileSystem
from ..maintenance.tablet_flush import flush
from ..rowsets.disk_rowset import DiskRowSet
from ..rowsets.stored_rowset import StoredRowSet, StoredRowSetView
from ..tablet.tablet import Tablet, TabletView
from .value_sketches import add_values

_log = logging.getLogger("nyala.storage")

MAGIC = b"nyalaSTA"
VERSION = 1
FILE = "statistics"
SketchOfFile: TypeAlias = tuple[str | None, ColumnSketch]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The sketches of rowsets as ANALYZE found them, by tablet, rowset and column, each with the name of the file that
    the column had, None for a column that was added to the table later."""

    sketches: Mapping[str, Mapping[int, Mapping[int, SketchOfFile]]] = field(default_factory=dict)

    def of(self, tablet_id: str, rowset: DiskRowSet) -> dict[int, ColumnSketch]:
        """Known sketches of a rowset's columns, by column id."""
        found = rowset.statistics()
        files = rowset.metadata.column_files
        for column, (file, sketch) in self.sketches.get(tablet_id, {}).get(rowset.metadata.id, {}).items():
            if files.get(column) == file:
                found[column] = sketch
        return found

    def with_tablets(self, tablet_ids: Collection[str], newer: Analysis) -> Analysis:
        """These statistics, with those of newer ones for the tablets with these ids."""
        kept = {tablet: rowsets for tablet, rowsets in self.sketches.items() if tablet not in tablet_ids}
        return Analysis({**kept, **newer.sketches})

    def write(self, fs: FileSystem, directory: str) -> None:
        """Replace the file of a table's directory durably."""
        content = {
            tablet: {
                rowset: {column: [file, sketch.to_dict()] for column, (file, sketch) in columns.items()}
                for rowset, columns in rowsets.items()
            }
            for tablet, rowsets in self.sketches.items()
        }
        replace_checked(fs, f"{directory}/{FILE}", MAGIC, VERSION, content)

    @classmethod
    def read(cls, fs: FileSystem, directory: str) -> Analysis:
        """The file of a table's directory; nothing where none can be read: the next ANALYZE writes one."""
        path = f"{directory}/{FILE}"
        if not fs.exists(path):
            return cls()
        try:
            content = read_checked(fs, path, MAGIC, VERSION)
            return cls(
                {
                    tablet: {
                        rowset: {c: (file, ColumnSketch.from_dict(data)) for c, (file, data) in columns.items()}
                        for rowset, columns in rowsets.items()
                    }
                    for tablet, rowsets in content.items()
                }
            )
        # Whatever is wrong with it (damage, a newer version, a disk that fails), the rows do not depend on it.
        except Exception as error:
            _log.warning("statistics are passed over until the next ANALYZE TABLE: %s", error)
            return cls()


def analyze(
    tablets: Sequence[Tablet], timestamp: int, check: Callable[[], None] | None = None
) -> tuple[Analysis, AnalyzeResult]:
    """Flush the tablets and look at their rowsets as they are at a time at or above all writes.

    Reads go on, and writes. Costs about a scan of the rowsets that have deltas. Raises `DiskError`, and what `check`
    raises, which is called before each tablet's flush and before each row group.
    """
    flushed = 0
    for tablet in tablets:
        if check is not None:
            check()
        with contextlib.suppress(TabletGone):  # its range partition has been dropped meanwhile
            flushed += flush(tablet)
    sketches: dict[str, dict[int, dict[int, SketchOfFile]]] = {}
    rows = rowsets = read = 0
    for tablet in tablets:
        view = tablet.view(timestamp)
        for stored in view.rowsets:
            rowsets += 1
            rows += stored.stored.live_count
            if stored.all_patches is not None:
                read += 1
                sketches.setdefault(tablet.id, {})[stored.metadata.id] = _sketches(view, stored, check)
    return Analysis(sketches), AnalyzeResult(rows, flushed, rowsets, read)


def _sketches(view: TabletView, stored: StoredRowSetView, check: Callable[[], None] | None) -> dict[int, SketchOfFile]:
    """Sketches of the live rows of a rowset, for each column."""
    schema = view.table.schema
    builders = [SketchBuilder() for _ in schema.columns]
    counters = ScanCounters(watch=None if check is None else lambda _: check())
    batches = stored.rowset.scan(schema.columns, (), 0, stored.row_count, counters, stored.all_patches, schema)
    for batch in batches:
        for column, builder, vector in zip(schema.columns, builders, batch.columns(), strict=True):
            add_values(builder, column, vector.to_arrow(), count_distinct=True)
    files = stored.metadata.column_files
    return {c.id: (files.get(c.id), b.finish()) for c, b in zip(schema.columns, builders, strict=True)}


# ---- what lies on disk -----------------------------------------------------------------------------------------------


def table_storage(table: Table, tablets: Sequence[Tablet]) -> TableStorage:
    """Storage of a table on disk, from the footers of its column files and a page of each text column."""
    pins = [tablet.pin() for tablet in tablets]
    rowsets = [stored for pin in pins for stored in pin.state.rowsets]
    columns = {column.name: _column_storage(column, table.schema, rowsets) for column in table.schema.columns}
    size = sum(stored.metadata.data_bytes for stored in rowsets)
    return TableStorage(len(tablets), len(rowsets), size, columns)


def _column_storage(column: ColumnSchema, schema: Schema, rowsets: Sequence[StoredRowSet]) -> ColumnStorage:
    size, encodings = 0, set()
    rows, weighted = 0, 0.0
    for stored in rowsets:
        reader = stored.rowset.reader(column.id)
        if reader is None:
            continue
        footer = reader.footer
        size += int(footer.pages["stored"].sum())
        size += 0 if footer.dictionary is None else int(footer.dictionary["stored"].sum())
        encodings.add(footer.encoding.value)
        if column.type.is_text and footer.rows:
            lengths = pc.mean(pc.binary_length(reader.page(0, ScanCounters()).to_arrow())).as_py()
            if lengths is not None:
                rows, weighted = rows + footer.rows, weighted + footer.rows * lengths
    width = weighted / rows if rows else None if column.type.is_text else _width(column.type)
    return ColumnStorage(size, tuple(sorted(encodings)), width)


def _width(type_: DataType) -> float:
    """Bytes of a value of fixed length, before encoding."""
    return 16.0 if type_.is_decimal and (type_.precision or 0) > 18 else float(type_.dtype.itemsize)
