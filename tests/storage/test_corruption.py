"""Damage of any kind to any file of a store: an error that names the file, or the right answer. Never a wrong one, and
never another kind of error. `check_store` finds the damage, or it is harmless for a reason that is given here.

The store opens whatever the damage is to, but for the catalog and FORMAT: a tablet that cannot be trusted is in
quarantine, its files stay as they are, and every other table gives the right answers.

One store that has every kind of file is damaged in one place, opened, and queried in full; then again in another
place. `NYALA_EVERY_BYTE=1` takes every byte of every file and every length, instead of a sample.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from nyala.errors import CorruptionError, UnsupportedFormat
from nyala.model.alterations import AddColumn, DropColumn, RenameColumn
from nyala.model.predicates import IsNull, Range
from nyala.model.schema import ColumnSchema, Compression, Schema, TableDefinition, non_unique_key, possible_encodings
from nyala.model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, ChangeRange, Op, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem, MemoryFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.maintenance.tablet_flush import flush_deltas
from tablet_support import HASHED, ONE_TABLET, batch, definition, insert, load, read, rowset_loader

EVERY_BYTE = os.environ.get("NYALA_EVERY_BYTE") == "1"
SAMPLE = 2
"""Places of each file, beside its first and last bytes; lengths are half as many."""
CHANGED_TABLE, ENCODED_TABLE, PAIRS_TABLE, LOADED_TABLE = (f"db/tables/t00000{n}" for n in (1, 2, 3, 4))
Files = dict[str, bytes]


# ---- a store of everything ---------------------------------------------------------------------------------------


@dataclass
class Whole:
    """The undamaged store: its files, and what it answers."""

    files: Files
    times: list[Timestamp]
    answers: dict[str, Any] = field(default_factory=dict)
    keys: list[int] = field(default_factory=list)


def many_encodings() -> tuple[Schema, list[pa.Array]]:
    columns = [ColumnSchema("k", BIGINT, nullable=False)]
    arrays = [pa.array(range(40), pa.int64())]
    values: dict[Any, Callable[[int], Any]] = {
        BOOLEAN: lambda n: n % 3 == 0,
        INT: lambda n: n // 4,
        DOUBLE: lambda n: n / 4,
        DECIMAL(30, 2): Decimal,
        DATE: lambda n: date(2026, 1, 1 + n % 28),
        TIMESTAMP: lambda n: datetime(2026, 1, 1, n % 24),
        STRING: lambda n: f"text {n // 3}",
        BINARY: lambda n: bytes([0, n // 5]),
    }
    compressions = [c for c in Compression if c is not Compression.AUTO]
    for type_ in values:
        for encoding in possible_encodings(type_):
            compression = compressions[len(columns) % len(compressions)]
            columns.append(ColumnSchema(f"c{len(columns)}", type_, encoding=encoding, compression=compression))
            cells = [None if n % 7 == 3 else values[type_](n) for n in range(40)]
            arrays.append(pa.array(cells, type_.arrow))
    return Schema(tuple(columns), 1), arrays


def change_much(db: Database, times: list[Timestamp]) -> None:
    """A table with UNDO and REDO files, ghosts, an old schema, and all kinds of log entries that are in no file."""
    table = db.create_table(definition())
    times.append(db.now())
    load(db, table, range(0, 120, 2))
    insert(db, table, range(0, 30, 2), "updated", Op.UPDATE)
    db.write(table, WriteBatch(batch(range(20, 40, 2)), Op.DELETE))
    times.append(db.now())
    for stored in db._tablets()[0].state.rowsets:
        flush_deltas(db._tablets()[0], stored)
    insert(db, table, range(1, 41, 4), "inserted")
    insert(db, table, range(1, 21, 4), "updated", Op.UPDATE)
    insert(db, table, range(30, 40, 2), "reinserted")
    db.write(table, WriteBatch(batch(range(29, 41, 4)), Op.DELETE))
    times.append(db.now())
    db.flush(table)
    table = db.alter_table(
        "t", [AddColumn(ColumnSchema("n", INT, default=7)), AddColumn(ColumnSchema("gone", INT)), DropColumn("v")]
    )
    table = db.alter_table("t", [AddColumn(ColumnSchema("v", STRING)), RenameColumn("gone", "there")])
    insert(db, table, range(200, 230), "logged")
    times.append(db.now())
    insert(db, table, range(200, 210), "updated", Op.UPDATE)
    insert(db, table, range(0, 10, 2), "changed", Op.UPSERT)
    db.write(table, WriteBatch(batch([10, 12, 215]), Op.DELETE))
    db.write_row(table, Op.INSERT, {"k": 300, "v": "one", "n": 3})
    db.write_row(table, Op.UPDATE, {"k": 220, "there": 5})
    db.write_row(table, Op.DELETE, {"k": 14})
    times.append(db.now())


@pytest.fixture(scope="module")
def whole() -> Whole:
    disk, times = MemoryFileSystem(), []
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False, segment_bytes=2500) as db:
        change_much(db, times)
        schema, arrays = many_encodings()
        encoded = db.create_table(definition("encoded", schema=schema))
        with rowset_loader(db, encoded) as loader:
            loader.append(pa.table(arrays, names=schema.names))
            loader.finish()
        columns = (ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", STRING))
        pairs = db.create_table(TableDefinition("pairs", non_unique_key(columns, 1), ONE_TABLET))
        load(db, pairs, [1, 1, 2])
        insert(db, pairs, [1, 2, 2])
        loaded = db.create_table(definition("loaded", partitions=HASHED))
        fs.fail("create", f"{LOADED_TABLE}/*/metadata.tmp")
        load(db, loaded, range(20))
        parts = db.create_table(definition("parts", partitions=HASHED))
        insert(db, parts, range(10))  # in one statement over three tablets: a record of the commit log
        times.append(db.now())
    found = Whole(files_of(disk), times)
    names = " ".join(found.files)
    assert all(
        part in names for part in ("/load-", "/commits/", "-undo-", "-redo-", ".bloom", ".col", "catalog", "FORMAT")
    )
    assert sum(path.startswith(f"{CHANGED_TABLE}/") and path.endswith(".log") for path in found.files) >= 2
    with Database("db", fs=filesystem(found.files), background=False) as db:
        found.keys = [row[0] for row in read(db, db.table("t"), ("k",))]
        found.answers = {name: ask() for name, ask in questions(db, found)}
    again, error = answers(found.files, found)
    assert (again, error) == (found.answers, {})
    assert check_store(filesystem(found.files), "db").errors == []
    return found


def files_of(fs: MemoryFileSystem) -> Files:
    def below(path: str) -> Iterator[tuple[str, bytes]]:
        for name in fs.list(path):
            inner = f"{path}/{name}"
            if name in ("tables", "wal", "rowsets", "commits") or name.startswith("t00000"):
                yield from below(inner)
            else:
                file = fs.open(inner)
                yield inner, file.read_at(0, file.size)

    return dict(below("db"))


def filesystem(files: Files) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for path, data in files.items():
        fs.make_directory(path.rpartition("/")[0])
        fs.create(path).write(data)
    for tablet in {path.rpartition("/")[0] for path in files if path.endswith("/metadata")}:
        fs.make_directory(f"{tablet}/wal")
        fs.make_directory(f"{tablet}/rowsets")
    return fs


# ---- everything that can be read ---------------------------------------------------------------------------------


def rows_of(db: Database, table: Any, spec: ScanSpec) -> list[str]:
    """The rows of a scan as texts (NULLs have no order)."""
    rows: list[str] = []
    for token in db.scan_tokens(table, spec):
        for found in db.scan(token):
            columns = [column.to_arrow().to_pylist() for column in found.columns()]
            rows.extend(map(str, zip(*columns) if columns else [()] * found.length))
    return rows if spec.ordered else sorted(rows)


def questions(db: Database, whole: Whole, about: str = "") -> Iterator[tuple[str, Callable[[], Any]]]:
    """Questions about all tables, or about the one to whose folder the path `about` belongs."""
    yield "tables", db.tables
    for table in db.tables():
        names = tuple(table.schema.names)
        if "/tables/" in about and f"/tables/{table.id}/" not in about:
            yield f"{table.name}, none", lambda table=table: rows_of(db, table, ScanSpec(()))
            continue

        def scan(columns: Any = names, table: Any = table, **spec: Any) -> Any:
            return rows_of(db, table, ScanSpec(columns, **spec))

        yield f"{table.name}, all", scan
        yield f"{table.name}, none", lambda scan=scan: scan(())
        yield f"{table.name}, in order", lambda scan=scan: scan(ordered=True, limit=3)
        if table.name == "encoded":
            for name in names:
                is_null = (IsNull(name),)
                yield f"{table.name}, no {name}", lambda scan=scan, is_null=is_null: scan(("k",), predicates=is_null)
        else:
            few = (Range("k", 4, 30), Range("v", "c", "v"))
            yield f"{table.name}, some", lambda scan=scan, few=few: scan(predicates=few)
        if table.name == "t":
            yield from questions_of_history(db, table, whole)
        if table.name == "loaded":
            yield "loaded key", lambda table=table: db.read_row(table, [7], ("v",))
            yield "loaded, refused", lambda table=table: [e.row for e in insert(db, table, range(20)).errors]


def questions_of_history(db: Database, table: Any, whole: Whole) -> Iterator[tuple[str, Callable[[], Any]]]:
    for number, time in enumerate(whole.times):
        then = ScanSpec(("k", "v", "n"), snapshot=time)
        yield f"at {number}", lambda then=then: rows_of(db, table, then)
    columns = ("k", "n", CHANGE_COLUMN)
    for number, since in enumerate(whole.times[:4]):
        spec = ScanSpec(columns, changes=ChangeRange(since))
        yield f"changes since {number}", lambda spec=spec: rows_of(db, table, spec)
    full = ScanSpec(("k", "v", CHANGE_COLUMN, CHANGED_AT_COLUMN), changes=ChangeRange(whole.times[0], history=True))
    yield "all changes", lambda: rows_of(db, table, full)
    for key in (0, 10, 30, 32, 29, 14, 202, 300, 5, 999):
        yield f"key {key}", lambda key=key: db.read_row(table, [key], ("k", "v", "n", "there"))
        yield f"key {key} before", lambda key=key: db.read_row(table, [key], ("k", "v"), whole.times[2])
    # Last, since a wrong answer changes the table: no key that is there can be inserted.
    yield "refused", lambda: [error.row for error in insert(db, table, whole.keys).errors]


def answers(files: Files, whole: Whole, about: str = "") -> tuple[dict[str, Any], dict[str, Exception]]:
    """Results of all reads of a store by name, and the errors of those that it refuses."""
    found: dict[str, Any] = {}
    refused: dict[str, Exception] = {}
    fs = filesystem(files)
    try:
        db = Database("db", fs=fs, background=False)
    except (CorruptionError, UnsupportedFormat) as error:
        return {}, {"opening": error}
    with db:
        for name, ask in questions(db, whole, about):
            try:
                found[name] = ask()
            except (CorruptionError, UnsupportedFormat) as error:
                refused[name] = error
        quarantined = [one.tablet_id for one in db.maintenance_status().quarantined]
        db.maintain()
    after = files_of(fs)
    for tablet in quarantined:
        assert {p: d for p, d in after.items() if tablet in p} == {p: d for p, d in files.items() if tablet in p}, (
            tablet
        )
    return found, refused


# ---- damage ------------------------------------------------------------------------------------------------------


def judge(whole: Whole, path: str, damaged: bytes | None, what: str) -> None:
    """Hold the store with one file damaged (None: missing) against what must hold."""
    files = {**whole.files, path: damaged or b""}
    if damaged is None:
        del files[path]
    where = f"{path}, {what}"
    try:
        found, refused = answers(files, whole, path)
    except Exception as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
    names = [path, path.rpartition("/")[0]] if damaged is None else [path]
    for question, error in refused.items():
        assert is_named(str(error), names), f"{where}: {question}: {error}"
        assert question != "opening" or path.count("/") == 1, f"{where}: the store does not open: {error}"
    if damaged is None and path.startswith(f"{LOADED_TABLE}/load-"):
        return  # it is as if the load had never been: docs/operations.md
    for question, answer in found.items():
        assert answer == whole.answers[question], f"{where}: a wrong answer to: {question}"
    report = check_store(filesystem(files), "db")
    if any(is_named(str(error), names) for error in report.errors):
        return
    assert not refused, f"{where}: check_store has not found it, but the store: {refused}"
    assert why_harmless(path), f"{where}: not found by check_store"


def is_named(message: str, names: list[str]) -> bool:
    return any(name in message for name in names)


def why_harmless(path: str) -> str | None:
    """Reason that damage which `check_store` reports as no error is harmless; None if it is not."""
    if path.startswith(f"{LOADED_TABLE}/") and path.endswith(".log"):
        return "a LOAD entry, which nobody replays: the load record says the same"
    if path.endswith("/commits/forgotten"):
        return "a store of an earlier version lacks it: then the commit log's start is not checked"
    return None


def damages(data: bytes, rng: random.Random, sample: int) -> Iterator[tuple[str, bytes]]:
    size = len(data)
    ends = {0, size - 1} if sample > 1 else set()
    places = range(size) if EVERY_BYTE else sorted(ends | {rng.randrange(size) for _ in range(sample)})
    for place in places:
        for byte in {data[place] ^ 1, data[place] ^ 0x80, 0, 255} if EVERY_BYTE else {rng.choice(flips(data[place]))}:
            if byte != data[place]:
                yield f"byte {place} is {byte}", data[:place] + bytes([byte]) + data[place + 1 :]
    lengths = range(size) if EVERY_BYTE else sorted(ends | {rng.randrange(size) for _ in range((sample + 1) // 2)})
    for length in lengths:
        yield f"cut to {length}", data[:length]


def flips(byte: int) -> list[int]:
    return [byte ^ 1 << bit for bit in range(8)] + [byte ^ 0xFF]


KINDS = {
    "catalog and format": lambda path: path.count("/") == 1,
    "metadata": lambda path: path.endswith("/metadata"),
    "load record": lambda path: "/load-" in path,
    "forgotten commits": lambda path: path.endswith("/commits/forgotten"),
    "log": lambda path: path.endswith(".log"),
    "columns": lambda path: path.endswith(".col"),
    "Bloom filters": lambda path: path.endswith(".bloom"),
    "deltas": lambda path: path.endswith(".delta"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_an_error_or_makes_no_difference(whole, kind):
    rng = random.Random(kind)
    for path, data in whole.files.items():
        if KINDS[kind](path):
            for what, damaged in damages(data, rng, 1 if path.startswith(ENCODED_TABLE) else SAMPLE):
                judge(whole, path, damaged, what)


@pytest.mark.slow
def test_a_file_that_is_missing_is_an_error(whole):
    for path in whole.files:
        judge(whole, path, None, "missing")


ONE_OF_A_KIND = ("catalog and format", "load record", "forgotten commits")
MIXED_PAIRS = 12
"""Pairs of files of each kind that are exchanged; `NYALA_EVERY_BYTE=1` takes all."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ONE_OF_A_KIND])
def test_files_that_were_mixed_up_are_an_error_or_make_no_difference(whole, kind):
    """Of two tablets, two rowsets, two columns, two generations: each file is whole, and in the other's place."""
    rng = random.Random(kind)
    paths = [path for path in whole.files if KINDS[kind](path)]
    pairs = list(itertools.combinations(paths, 2))
    for one, other in pairs if EVERY_BYTE else rng.sample(pairs, min(MIXED_PAIRS, len(pairs))):
        if whole.files[one] != whole.files[other]:
            judge_mixed(whole, one, other)


def judge_mixed(whole: Whole, one: str, other: str) -> None:
    files = {**whole.files, one: whole.files[other], other: whole.files[one]}
    where = f"{one} and {other} exchanged"
    report = check_store(filesystem(files), "db")
    assert any(is_named(str(error), [one, other]) for error in report.errors), f"{where}: not found by check_store"
    for about in (one, other):
        try:
            found, refused = answers(files, whole, about)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        for question, answer in found.items():
            assert answer == whole.answers[question], f"{where}: a wrong answer to: {question}"
        for question, error in refused.items():
            assert question != "opening" and is_named(str(error), [one, other]), f"{where}: {question}: {error}"


def test_every_file_is_of_a_kind_that_is_damaged(whole):
    for path in whole.files:
        assert sum(is_kind(path) for is_kind in KINDS.values()) == 1, path


def test_the_newest_segment_is_missed_though_the_store_was_not_closed():
    disk = CrashableFileSystem()
    db = Database("db", fs=disk, background=False, segment_bytes=1500)
    table = db.create_table(definition())
    for start in range(0, 100, 10):
        insert(db, table, range(start, start + 10))
        db.maintain()
    image = disk.crash(0.0, random.Random(1))
    db.close()
    directory = f"{CHANGED_TABLE}/t000001-p0000/wal"
    *older, newest = image.list(directory)
    assert older
    image.remove(f"{directory}/{newest}")
    assert any(directory in str(error) for error in check_store(image, "db").errors)
    too_early = pytest.raises(CorruptionError, match=r"the log ends with entry \d+, but went on to entry \d+")
    with Database("db", fs=image) as db, too_early:
        read(db, db.table("t"), ("k",))
