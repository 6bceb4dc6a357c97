"""The tablet design document's worked example: INSERT, UPDATE, DELETE and INSERT of one key, what is kept of it in
memory and on disk, and what readers of each time see. `golden/worked_example.txt` describes it in the document's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.store import Op, ScanCounters, Timestamp, WriteBatch
from nyala.model.types import BIGINT, STRING
from nyala.storage.database import Database
from nyala.storage.deltas.deltas import DeltaKind, Deltas, merge
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.maintenance.delta_compaction import compact_major, compact_minor
from nyala.storage.maintenance.rowset_compaction import compact_rowsets
from nyala.storage.maintenance.tablet_flush import flush_deltas
from nyala.storage.rowsets.memrowset import MemRowSet
from nyala.storage.rowsets.stored_rowset import StoredRowSet
from tablet_support import definition, read

GOLDEN = Path(__file__).parent / "golden" / "worked_example.txt"
SCHEMA = Schema((ColumnSchema("key", STRING, nullable=False), ColumnSchema("val", BIGINT)), 1)


class Example:
    """A table with one key, and its transactions by number."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.open()

    def open(self) -> None:
        self.db = Database("db", fs=self.fs)
        tables = self.db.tables()
        self.table = tables[0] if tables else self.db.create_table(definition(schema=SCHEMA))
        self.tablet = self.db._stores[self.table.id].tablets[0]
        if not tables:
            self.times: list[int] = [self.db.now()]

    def run(self, command: str) -> str:
        return "\n".join(text for line in command.splitlines() for text in self.run_line(line))

    def run_line(self, line: str) -> Iterator[str]:
        word, *rest = line.split()
        if word in Op.__members__:
            self.write(Op[word], rest)
            return
        yield from {
            "create": self.create,
            "flush": self.flush,
            "compact": self.compact,
            "reopen": self.reopen,
            "show": self.show,
            "read": self.read,
        }[word](*rest)

    def write(self, op: Op, values: list[str]) -> None:
        columns: dict[str, Any] = {"key": ["row"]}
        if values:
            columns["val"] = pa.array([int(values[0])], pa.int64())
        result = self.db.write(self.table, WriteBatch(pa.record_batch(columns), op))
        assert result.errors == ()
        self.times.append(result.timestamp)

    # ---- background work -----------------------------------------------------------------------------------------

    def create(self) -> Iterator[str]:
        """Begin again."""
        self.db.check()
        self.db.close()
        self.fs = MemoryFileSystem()
        self.open()
        yield from ()

    def flush(self, what: str) -> Iterator[str]:
        if what == "memrowset":
            self.db.flush()
        else:
            for stored in self.tablet.state.rowsets:
                flush_deltas(self.tablet, stored)
        yield from ()

    def compact(self, what: str) -> Iterator[str]:
        rowsets = self.tablet.state.rowsets
        if what == "rowsets":
            compact_rowsets(self.tablet, rowsets)
        for stored in rowsets if what != "rowsets" else ():
            {"minor": compact_minor, "major": compact_major}[what](self.tablet, stored)
        yield from ()

    def reopen(self) -> Iterator[str]:
        self.db.close()
        self.open()
        yield from ()

    # ---- what there is -------------------------------------------------------------------------------------------

    def read(self) -> Iterator[str]:
        for number, time in enumerate(self.times):
            rows = read(self.db, self.table, ("key", "val"), snapshot=Timestamp(time))
            yield f"as of Tx {number}: {', '.join(map(row_text, rows)) or 'no row'}"

    def show(self) -> Iterator[str]:
        for memrowset in self.tablet.state.memrowsets:
            if memrowset.row_count:
                yield from self.memrowset_lines(memrowset)
        for number, stored in enumerate(self.tablet.state.rowsets):
            yield from self.rowset_lines(number, stored)

    def memrowset_lines(self, memrowset: MemRowSet) -> Iterator[str]:
        yield "MemRowSet:"
        image = memrowset.snapshot().image(self.times[-1])
        (row,) = zip(*(column.to_pylist() for column in image.rows.columns))
        yield f"  | tx {self.times.index(int(image.inserted[0]))} | {row_text(row)}"
        for time, text in self.records(image.mutations, row[0]):
            yield f"  | tx {time} | {text.replace('INSERT', 'REINSERT')}"

    def rowset_lines(self, number: int, stored: StoredRowSet) -> Iterator[str]:
        yield f"DiskRowSet {number}:"
        (batch,) = stored.rowset.scan(self.table.schema.columns, (), 0, 1, ScanCounters())
        (row,) = zip(*(column.to_arrow().to_pylist() for column in batch.columns()))
        yield "  Base data:"
        yield f"    {row_text(row)}"
        yield "  UNDO records (roll-back):"
        undo = list(self.records(merge([file.read(0, 1) for file in stored.undo]), row[0]))
        for time, text in reversed(undo):
            yield f"    Before Tx {time}: {text}"
        if stored.metadata.inserted:
            yield f"    Before Tx {self.times.index(stored.metadata.inserted)}: DELETE   (of all rows, in the metadata)"
        for place, file in enumerate(stored.redo):
            yield f"  REDO file {place}:"
            for time, text in self.records(file.read(0, 1), row[0]):
                yield f"    Tx {time}: {text}"
        run = merge([run for memstore in stored.memstores for run in memstore.snapshot()])
        if len(run):
            yield "  DeltaMemStore:"
            for time, text in self.records(run, row[0]):
                yield f"    Tx {time}: {text}"

    def records(self, deltas: Deltas, key: str) -> Iterator[tuple[int, str]]:
        """(number of the transaction, what is recorded) in order of time."""
        given = deltas.columns.get(1)
        values = {} if given is None else dict(zip(given.places.tolist(), given.values.to_pylist()))
        for place, (time, kind) in enumerate(zip(deltas.timestamps.tolist(), deltas.kinds.tolist())):
            found = [str(values[place])] if place in values else []
            texts = {
                DeltaKind.UPDATE: f"SET val={', '.join(found)}",
                DeltaKind.DELETE: "DELETE",
                DeltaKind.REINSERT: f"INSERT {row_text((key, *found))}",
            }
            yield self.times.index(time), texts[DeltaKind(kind)]


def row_text(row: tuple[Any, ...]) -> str:
    return f'("{row[0]}", {", ".join(map(str, row[1:]))})'


def test_the_documents_worked_example(golden: Callable[[Path, Callable[[str], str]], None]) -> None:
    example = Example()
    golden(GOLDEN, example.run)
    example.db.check()
    example.db.close()
