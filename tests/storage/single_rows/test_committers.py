"""Committers sync the rows of writers that do not wait: all are decided, whatever `done` does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.errors import DiskError
from nyala.model.store import Op, WriteResult
from nyala.storage.database import Database
from nyala.storage.single_rows.committers import Committers, Entered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) PARTITIONS 3")
        connection.execute("INSERT INTO t SELECT n, 0 FROM generate_series(-20, -1) AS g(n)")  # each log has a segment
        database = connection.session.store
        assert isinstance(database, Database)
        yield database


class Outcomes:
    """Outcomes of rows by key, as they come."""

    def __init__(self) -> None:
        self.of: dict[int, WriteResult | Exception] = {}
        self._changed = threading.Condition()

    def note(self, key: int, outcome: WriteResult | Exception) -> None:
        with self._changed:
            assert key not in self.of, "decided twice"
            self.of[key] = outcome
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of) >= count, 60.0)


def enter(store: Database, key: int, outcomes: Outcomes) -> Entered:
    table = store.table("t")
    started = store.start_python_row(table, Op.INSERT, {"k": key, "v": key})
    assert started is not None
    return Entered(started, lambda outcome: outcomes.note(key, outcome))


def test_rows_are_durable_when_they_are_done(store: Database) -> None:
    outcomes, committers = Outcomes(), Committers(store.finish_row)
    table = store.table("t")
    committers.put_all([enter(store, key, outcomes) for key in range(50)])
    for key in range(50, 60):
        committers.put(*enter(store, key, outcomes))
    committers.close()
    assert sorted(outcomes.of) == list(range(60))
    assert all(isinstance(outcome, WriteResult) for outcome in outcomes.of.values())
    assert [store.read_row(table, [key], ["v"]) for key in range(60)] == [(key,) for key in range(60)]
    assert all(tablet.log.synced_index == tablet.log.last_index for tablet in store.open_table(table).tablets)


def test_rows_that_are_put_together_are_finished_in_one_turn(store: Database) -> None:
    turns: list[set[int]] = []
    outcomes = Outcomes()

    @contextmanager
    def turn() -> Iterator[None]:
        before = set(outcomes.of)
        yield
        turns.append(set(outcomes.of) - before)

    committers = Committers(store.finish_row, turn)
    rows = [enter(store, key, outcomes) for key in range(9)]
    by_tablet: dict[str, set[int]] = {}
    for key, row in enumerate(rows):
        by_tablet.setdefault(row.started.tablet.id, set()).add(key)
    committers.put_all(rows)
    committers.close()
    for together in by_tablet.values():
        assert any(together <= turn for turn in turns), (turns, by_tablet)


def test_errors_concern_their_rows_alone(store: Database, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = Outcomes()

    def finish(started: Any) -> WriteResult:
        result = store.finish_row(started)
        if started is rows[1].started:
            raise DiskError("no")
        return result

    def fail(outcome: WriteResult | Exception) -> None:
        outcomes.note(2, outcome)
        raise ValueError("a bug of the writer's")

    committers = Committers(finish)
    rows = [enter(store, key, outcomes) for key in range(4)]
    rows[2] = rows[2]._replace(done=fail)
    committers.put_all(rows)
    outcomes.wait(4)
    committers.put(*enter(store, 4, outcomes))  # the threads go on
    committers.close()
    assert {key for key, outcome in outcomes.of.items() if isinstance(outcome, Exception)} == {1}
    assert "could not be passed on" in caplog.text


def test_nothing_is_started_that_must_wait_or_fails(store: Database) -> None:
    table = store.table("t")
    assert store.start_python_row(table, Op.INSERT, {"k": -1, "v": 5}) is None  # a duplicate
    assert store.start_python_row(table, Op.UPDATE_IGNORE, {"k": 99, "v": 5}) is None  # changes nothing
    with pytest.raises(nyala.errors.Error):
        store.start_python_row(table, Op.INSERT, {"k": "no number"})
    assert store.read_row(table, [-1], ["v"]) == (0,)
    Committers(store.finish_row).close()  # without threads
