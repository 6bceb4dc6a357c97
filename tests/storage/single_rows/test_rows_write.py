"""Few rows written one by one against the same rows as batches: the same results, contents, changes and logs."""

from __future__ import annotations

import random

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DiskError
from nyala.model.store import ChangeRange, Op, ScanSpec
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.writing.tablet_write import TabletWrite
from row_path_support import few_rows
from transaction_support import POOLS, SHAPES, batch_of, contents, outcome, scanned

OPS = st.sampled_from(list(Op))


def rows_of(shape, optional):
    pools = {f"k{place}": st.sampled_from(pool) for place, pool in enumerate(shape.pools)}
    cells = {name: st.sampled_from(pool) for name, pool in POOLS.items()}
    others = st.fixed_dictionaries({}, optional=cells) if optional else st.fixed_dictionaries(cells)
    return st.builds(lambda key, values: {**key, **values}, st.fixed_dictionaries(pools), others)


@st.composite
def histories(draw):
    """A shape, and steps: batches of few rows, flushes, compactions."""
    shape = draw(st.sampled_from(list(SHAPES)))
    steps = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["write", "write", "write", "write", "flush", "compact"]))
        if kind != "write":
            steps.append((kind,))
            continue
        rows = draw(st.lists(rows_of(SHAPES[shape], draw(st.booleans())), min_size=1, max_size=24))
        ops = draw(st.lists(OPS, min_size=len(rows), max_size=len(rows)) if draw(st.booleans()) else OPS)
        names = draw(st.lists(st.sampled_from(list(POOLS)), unique=True)) if draw(st.booleans()) else list(POOLS)
        steps.append((kind, rows, ops, names, draw(st.booleans())))
    return shape, steps


def made(shape, steps, limit):
    """The outcomes of a history, the rows after each step, all changes; the same after a crash."""
    fs = CrashableFileSystem()
    found, times = [], []
    with few_rows(limit), Database("db", fs=fs, background=False, segment_bytes=4000) as db:
        table = db.create_table(SHAPES[shape].definition())
        key = table.schema.names[: table.schema.key_columns]
        before = db.now()
        for step in steps:
            if step[0] == "flush":
                db.flush()
            elif step[0] == "compact":
                db.compact_table(table)
            else:
                _, rows, ops, names, all_or_none = step
                given_rows = [{name: row[name] for name in (*key, *names) if name in row} for row in rows]
                batch = batch_of(table, given_rows, (*key, *names), ops, all_or_none=all_or_none)
                found.append(outcome(db.write(table, batch)))
            times.append(db.now())
            found.append(contents(db, table))
        spec = ScanSpec((*table.schema.names, "_change"), changes=ChangeRange(before, True))
        found.append(sorted(repr(row) for part in scanned(db, table, spec) for row in part))
        for at in times:
            spec = ScanSpec(tuple(table.schema.names), snapshot=at)
            found.append(sorted(repr(row) for part in scanned(db, table, spec) for row in part))
        last = contents(db, table)
    image = fs.crash(0.0, random.Random(1))
    assert not check_store(image, "db").errors
    with Database("db", fs=image, background=False) as db:
        db.check()
        assert contents(db, db.table("t")) == last
        db.flush()
        assert contents(db, db.table("t")) == last
    return found


@given(histories())
@settings(max_examples=examples(60), deadline=None)
def test_rows_and_batches_have_the_same_results(history):
    shape, steps = history
    assert made(shape, steps, 1000) == made(shape, steps, -1)


@pytest.mark.parametrize("count", [1, 16, 17, 40])
@pytest.mark.parametrize("shape", ["int", "hashed"])
def test_few_rows_take_the_row_path(count, shape, monkeypatch):
    monkeypatch.setattr(TabletWrite, "check", None)
    with Database(":memory:", background=False) as db:
        table = db.create_table(SHAPES[shape].definition())
        rows = [{"k0": k, "n": 1, "s": "x", "w": 0, "d": None, "b": True} for k in range(count)]
        db.write(table, batch_of(table, rows, table.schema.names, Op.INSERT))
        db.write(table, batch_of(table, rows, ("k0",), [Op.DELETE] * count, all_or_none=True))
        assert contents(db, table) == []


@pytest.mark.parametrize("what", ["write", "sync"])
@pytest.mark.parametrize("count", [2, 30])
def test_a_log_that_fails_leaves_nothing_of_the_rows(what, count):
    fs = CrashableFileSystem()
    disk = FaultyFileSystem(fs)
    with Database("db", fs=disk, background=False) as db:
        table = db.create_table(SHAPES["int"].definition())
        rows = [{"k0": k, "n": k, "s": "x", "w": 0, "d": 0.5, "b": True} for k in range(count)]
        db.write(table, batch_of(table, rows[::2], table.schema.names, Op.INSERT))
        for flushes in (False, True):
            if flushes:
                db.flush()
            before = contents(db, table)
            disk.fail(what, "*/wal/*", times=1000)
            mixed = [Op.UPSERT if row["k0"] % 4 else Op.DELETE_IGNORE for row in rows]
            with pytest.raises(DiskError):
                db.write(table, batch_of(table, [{**row, "n": -1} for row in rows], ("k0", "n", "w"), mixed))
            disk.heal()
            assert contents(db, table) == before
            key = {"k0": 0, "n": 7}
            db.write(table, batch_of(table, [key], ("k0", "n"), Op.UPDATE))
            assert contents(db, table)[0]["n"] == 7
    with Database("db", fs=fs.crash(1.0, random.Random(1)), background=False) as db:
        db.check()
        assert [row["n"] for row in contents(db, db.table("t"))] == [7, *range(2, count, 2)]
