"""Statements that change the same rows at the same time: each sees what the others have made of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import nyala
import pytest
from nyala import errors
from nyala.executor.run.context import ExecutionContext
from nyala.executor.statements import cataloging, changing, single_rows
from nyala.storage.single_rows import row_write
from nyala.storage.tablet.row_locator import Locations
from nyala.storage.writing.tablet_write import TabletWrite
from row_path_support import few_rows

THREADS = 6


@pytest.fixture(params=[1, 3])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[nyala.Connection]:
    with nyala.connect(tmp_path / "store", durability="os") as found:
        found.execute(
            "CREATE TABLE t (k INT, n INT NOT NULL, s STRING, PRIMARY KEY (k)) "
            + (f"DISTRIBUTE BY HASH (k) INTO {request.param} BUCKETS" if request.param > 1 else "")
        )
        found.execute("INSERT INTO t SELECT k, 0, 'x' FROM generate_series(1, 20) g(k)")
        yield found


def together(*works: Callable[[], object]) -> None:
    """Run them at the same time; the first error of any."""
    failed: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def often(connection: nyala.Connection, text: str, times: int = 40) -> Callable[[], None]:
    def work() -> None:
        for _ in range(times):
            connection.execute(text)

    return work


def retried(connection: nyala.Connection, text: str, times: int = 40) -> Callable[[], None]:
    """Executes a statement until it has succeeded `times` times.

    On a busy machine one can lose each of its attempts to others. It has written nothing then.
    """

    def work() -> None:
        done = 0
        while done < times:
            with suppress(errors.WriteConflict):
                connection.execute(text)
                done += 1

    return work


def rest(connection: nyala.Connection, stop: threading.Event) -> None:
    """Flushes and compacts as background maintenance does, but more often."""
    while not stop.wait(0.01):
        connection.store.flush()
        connection.execute("COMPACT TABLE t")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET n = n + 1 WHERE k = 3",
        "UPDATE t SET n = n + 1 WHERE k = 3 RETURNING n",
        "UPDATE t SET n = n + 1 WHERE k <= 5",
        "UPDATE t SET n = t.n + g.k FROM generate_series(1, 1) g(k) WHERE t.k = 3 * g.k",
        "INSERT INTO t VALUES (3, 1, 'y') ON CONFLICT (k) DO UPDATE SET n = t.n + 1",
    ],
)
def test_no_increment_is_lost(connection: nyala.Connection, text: str) -> None:
    stop = threading.Event()
    background = threading.Thread(target=rest, args=(connection, stop))
    background.start()
    try:
        together(*(retried(connection, text) for _ in range(THREADS)))
    finally:
        stop.set()
        background.join()
    assert connection.execute("SELECT n FROM t WHERE k = 3").fetchone() == (40 * THREADS,)


@pytest.mark.slow
def test_rows_that_lend_to_each_other_keep_their_sum(connection: nyala.Connection) -> None:
    def lend(seed: int) -> Callable[[], None]:
        chance = random.Random(seed)

        def work() -> None:
            for _ in range(40):
                giver, taker = chance.sample(range(1, 21), 2)
                connection.execute(
                    "UPDATE t SET n = n + CASE k WHEN ? THEN 1 ELSE -1 END WHERE k IN (?, ?)", (taker, giver, taker)
                )

        return work

    together(*map(lend, range(THREADS)))
    assert connection.execute("SELECT sum(n) FROM t").fetchone() == (0,)


def test_one_of_many_wins_a_row(connection: nyala.Connection) -> None:
    won: list[tuple[int, int]] = []
    at_once = threading.Barrier(THREADS)

    def claim(me: int) -> Callable[[], None]:
        def work() -> None:
            for k in range(1, 21):
                at_once.wait(60)
                if connection.execute("UPDATE t SET n = ? WHERE k = ? AND n = 0", (me, k)).rowcount:
                    won.append((k, me))

        return work

    together(*map(claim, range(1, THREADS + 1)))
    assert sorted(won) == connection.execute("SELECT k, n FROM t ORDER BY k").fetchall()


def count(connection: nyala.Connection, text: str, counts: list[int], at_once: threading.Barrier) -> None:
    at_once.wait(60)
    counts.append(connection.execute(text).rowcount)


def test_rows_are_deleted_as_they_are_now(connection: nyala.Connection) -> None:
    """Of each pair of statements one finds the row as it was, and the other not."""
    for k in range(1, 21):
        counts: list[int] = []
        at_once = threading.Barrier(2)
        texts = (f"DELETE FROM t WHERE k = {k} AND n = 0", f"UPDATE t SET n = 1 WHERE k = {k}")
        together(*(partial(count, connection, text, counts, at_once) for text in texts))
        assert sum(counts) == 1
        assert len(connection.execute(f"SELECT n FROM t WHERE k = {k} AND n = 1").fetchall()) in (0, 1)


def test_an_unrelated_write_is_no_conflict(connection: nyala.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "ATTEMPTS", 1)
    monkeypatch.setattr(single_rows, "ATTEMPTS", 1)
    together(*(often(connection, f"UPDATE t SET n = n + 1 WHERE k = {k}") for k in range(1, THREADS + 1)))
    found = connection.execute(f"SELECT n FROM t WHERE k <= {THREADS}").fetchall()
    assert found == [(40,)] * THREADS


def test_who_never_gets_a_turn_is_told(connection: nyala.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def always(tablet: object, table: object, locator: object, locations: Locations, since: int) -> np.ndarray:
        return np.ones(len(locations.home), np.bool_)

    def by_batch(*given: object) -> None:
        raise row_write.BatchPathNeeded

    check = TabletWrite._changed_errors
    monkeypatch.setattr(TabletWrite, "_changed_errors", lambda write, since: check(write, -1))  # rows are looked at
    monkeypatch.setattr("nyala.storage.writing.tablet_write.changed_rows", always)
    monkeypatch.setattr(row_write.RowWriter, "_start", by_batch)
    for text in ("UPDATE t SET n = 1 WHERE k < 4", "UPDATE t SET n = n + 1 WHERE k = 4"):
        with (
            few_rows(-1),
            pytest.raises(errors.WriteConflict, match="in each of 30 attempts; nothing was written") as told,
        ):
            connection.execute(text)
        assert told.value.retryable and isinstance(told.value.__cause__, errors.RowChanged)
    monkeypatch.undo()
    assert connection.execute("SELECT sum(n) FROM t").fetchone() == (0,)


@pytest.mark.slow
def test_of_many_rows_each_is_checked(connection: nyala.Connection) -> None:
    """More rows of a tablet than any look-up one by one would pay for."""
    connection.execute("INSERT INTO t SELECT k, 0, 'y' FROM generate_series(100, 12099) g(k)")
    together(*(retried(connection, "UPDATE t SET n = n + 1", 5) for _ in range(3)))
    assert connection.execute("SELECT min(n), max(n), count(*) FROM t").fetchone() == (15, 15, 12_020)


def test_a_history_that_is_gone_is_no_answer(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "short", history_seconds=0, durability="os") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, n INT); INSERT INTO t VALUES (3, 0)")
        stop = threading.Event()
        background = threading.Thread(target=rest, args=(connection, stop))
        background.start()
        try:
            together(*(retried(connection, "UPDATE t SET n = n + 1 WHERE k = 3") for _ in range(THREADS)))
        finally:
            stop.set()
            background.join()
        assert connection.execute("SELECT n FROM t").fetchone() == (40 * THREADS,)


IF_NOT_EXISTS = [
    "TABLE IF NOT EXISTS {0} (k INT PRIMARY KEY)",
    "TABLE IF NOT EXISTS {0} (PRIMARY KEY (k)) AS SELECT k FROM t",
    "VIEW IF NOT EXISTS {0} AS SELECT k FROM t",
]


@pytest.mark.parametrize("definition", IF_NOT_EXISTS)
def test_if_not_exists_holds_for_a_name_that_was_taken_meanwhile(
    connection: nyala.Connection, definition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists, looks = cataloging._exists, []

    def looked(name: str, context: ExecutionContext) -> bool:
        looks.append(name)
        return len(looks) > 1 and exists(name, context)  # the first look comes before another client's CREATE

    connection.execute("CREATE " + definition.format("made"))
    monkeypatch.setattr(cataloging, "_exists", looked)
    connection.execute("CREATE " + definition.format("made"))
    assert looks == ["made"] * 2
    with pytest.raises(errors.DuplicateTable):
        connection.execute("CREATE " + definition.format("made").replace("IF NOT EXISTS ", ""))
