"""Jobs from their tasks' rows to the table, without Spark: checked against a model, and interrupted anywhere."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import nyala
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nyala.driver.connection import Connection
from nyala.errors import AlreadyPresent, IntegrityError, InterfaceError, NotSupportedError, OperationalError
from nyala.spark.writing import applying, tasks
from nyala.spark.writing import publish as publishing
from nyala.spark.writing.jobs import Jobs, State
from nyala.spark.writing.operations import Operation
from nyala.spark.writing.publish import Published, abandon, publish, resume
from nyala.spark.writing.staging import drop_leftovers
from nyala.spark.writing.tasks import JobPlan, write_task
from nyala.testing import MiniCluster
from spark_writing_support import (
    TABLE,
    Crash,
    Rows,
    batches,
    crashing,
    dead_owner,
    expected,
    fill,
    plan,
    staging_tables,
    table_rows,
    write,
)

OPERATIONS = st.sampled_from(list(Operation))
KEYS = st.integers(0, 12)
BEFORE = st.dictionaries(KEYS, st.tuples(st.none() | st.just("old"), st.integers(0, 3)), max_size=8)
TASKS = st.lists(st.lists(KEYS, max_size=6), max_size=3)
DISJOINT = st.lists(KEYS, unique=True, max_size=12).flatmap(
    lambda keys: st.lists(st.integers(0, len(keys)), max_size=2).map(
        lambda cuts: [keys[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(keys)])]
    )
)
_numbers = itertools.count()


def new_job() -> str:
    """The key of a new job."""
    return f"job {next(_numbers)}"


@pytest.fixture(scope="module")
def store() -> Iterator[Connection]:
    patch = pytest.MonkeyPatch()
    patch.setattr(tasks, "FEW_ROWS", 4)
    patch.setattr(applying, "CHUNK_ROWS", 3)
    with nyala.connect() as connection:
        connection.execute(TABLE)
        yield connection
    patch.undo()


def valued(keys: Sequence[Sequence[int]], run: str) -> list[list[tuple[int, str]]]:
    """Rows whose values name their run, task and row."""
    return [[(k, f"{run}{task}.{row}") for row, k in enumerate(rows)] for task, rows in enumerate(keys)]


def outcome(connection: Connection, run: JobPlan, rows: Any, before: Rows) -> tuple[Rows | type, Rows | type]:
    """Expected and actual outcome: rows, or the class of the error."""
    try:
        wanted: Any = expected(run.operation, before, rows)
    except IntegrityError as error:
        wanted = type(error)
    try:
        publish(connection, run, write(connection, run, rows))
        found: Any = table_rows(connection)
    except IntegrityError as error:
        found = type(error)
        assert table_rows(connection) == before
    return wanted, found


@settings(max_examples=examples(50))
@given(operation=OPERATIONS, before=BEFORE, keys=DISJOINT | TASKS)
@example(operation=Operation.DELETE, before={0: ("old", 0)}, keys=[[0, 0]])
def test_a_job_does_what_its_operation_says(
    store: Connection, operation: Operation, before: Rows, keys: list[list[int]]
) -> None:
    fill(store, before)
    run = plan(operation, new_job())
    wanted, found = outcome(store, run, valued(keys, "x"), before)
    if isinstance(wanted, dict) and isinstance(found, dict) and are_shared(keys):
        # Which of several rows with one key wins is not said, where they come from several tasks.
        assert found.keys() == wanted.keys()
    else:
        assert found == wanted
    assert staging_tables(store) == []
    record = Jobs(store).find(run.job)
    assert record is not None
    assert record.state is (State.PUBLISHED if isinstance(wanted, dict) else State.ABORTED)


def are_shared(keys: Sequence[Sequence[int]]) -> bool:
    """True if two tasks have rows with the same key."""
    return sum(len(set(rows)) for rows in keys) > len({k for rows in keys for k in rows})


@settings(max_examples=examples(80))
@given(
    operation=OPERATIONS,
    before=BEFORE,
    keys=DISJOINT,
    crash=st.integers(1, 14),
    after=st.booleans(),
    crash_again=st.integers(0, 6),
)
def test_a_job_that_is_interrupted_anywhere_and_run_again_is_done_once(
    store: Connection,
    operation: Operation,
    before: Rows,
    keys: list[list[int]],
    crash: int,
    after: bool,
    crash_again: int,
) -> None:
    fill(store, before)
    job = new_job()
    runs = [valued(keys, "first"), valued(keys, "second"), valued(keys, "third")]
    taken: int | None = None
    for number, at in enumerate((crash, crash_again)):
        dying = crashing(store, at, after)
        run = plan(operation, job)
        with suppress(Crash, IntegrityError):
            publish(dying, run, write(dying, run, runs[number]), owner=dead_owner())
        record = Jobs(store).find(job)
        if taken is None and record is not None and record.state in (State.PUBLISHING, State.PUBLISHED):
            taken = number
    last = plan(operation, job)
    try:
        wanted: Any = expected(operation, before, runs[2 if taken is None else taken])
    except IntegrityError as error:
        with pytest.raises(type(error)):
            publish(store, last, write(store, last, runs[2]))
        assert table_rows(store) == before
    else:
        done = publish(store, last, write(store, last, runs[2]))
        assert done.is_repeated is (taken is not None)
        assert table_rows(store) == wanted
        repeated = plan(operation, job)
        assert publish(store, repeated, write(store, repeated, runs[2])).record == done.record
        assert table_rows(store) == wanted
    drop_leftovers(store, age=timedelta(0))
    assert staging_tables(store) == []


def test_of_two_drivers_with_one_key_one_publishes(store: Connection) -> None:
    fill(store, {})
    for _ in range(5):
        job, start = new_job(), threading.Barrier(2)
        done: dict[str, Published] = {}

        def drive(
            name: str,
            job: str = job,
            start: threading.Barrier = start,
            done: dict[str, Published] = done,
        ) -> None:
            run = plan(Operation.OVERWRITE, job)
            told = write(store, run, valued([[1, 2, 3], [4, 5, 6]], name))
            start.wait()
            done[name] = publish(store, run, told)

        drivers = [threading.Thread(target=drive, args=(name,)) for name in ("a", "b")]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        (winner,) = [name for name, published in done.items() if not published.is_repeated]
        assert {(v or "")[0] for v, _ in table_rows(store).values()} == {winner}
        assert staging_tables(store) == []


def test_what_another_process_does_is_waited_for_and_a_dead_one_is_resumed(store: Connection) -> None:
    fill(store, {})
    run = plan(Operation.UPSERT, new_job())
    told = write(store, run, valued([[1, 2, 3, 4, 5, 6]], "x"))
    with suppress(Crash):
        publish(crashing(store, 2, after=False), run, told)
    # The owner lives, as far as can be known.
    with pytest.raises(OperationalError, match="is being published by"):
        resume(store, run.job)
    abandon(store, run)
    assert staging_tables(store) == [run.staging]
    record = Jobs(store).find(run.job)
    assert record is not None
    Jobs(store).change(record, replace(record, owner=dead_owner()))
    resumed = resume(store, run.job)
    assert resumed is not None
    assert resumed.record.state is State.PUBLISHED
    assert table_rows(store).keys() == {1, 2, 3, 4, 5, 6}
    assert resume(store, run.job) is None
    assert staging_tables(store) == []


def test_a_key_of_another_job_is_refused(store: Connection) -> None:
    fill(store, {})
    job = new_job()
    run = plan(Operation.UPSERT, job)
    publish(store, run, write(store, run, valued([[1]], "x")))
    other = plan(Operation.DELETE, job)
    with pytest.raises(InterfaceError, match="operation=upsert of table t"):
        publish(store, other, write(store, other, valued([[1]], "x")))
    assert table_rows(store) == {1: ("x0.0", 7)}


def test_only_tables_of_dead_jobs_are_leftovers(store: Connection) -> None:
    rows = valued([[1, 2, 3, 4, 5, 6]], "x")
    young, old, dying = (plan(Operation.UPSERT, new_job()) for _ in range(3))
    write(store, young, rows)
    write(store, old, rows)
    with suppress(Crash):
        publish(crashing(store, 2, after=False), dying, write(store, dying, rows), owner=dead_owner())
    assert drop_leftovers(store) == []
    jobs = Jobs(store)
    record = jobs.find(young.job)
    assert record is not None
    assert set(drop_leftovers(store, age=timedelta(0), keep=young.staging)) == {old.staging}
    assert set(staging_tables(store)) == {young.staging, dying.staging}
    abandon(store, young)
    assert staging_tables(store) == [dying.staging]
    record = jobs.find(young.job)
    assert record is not None
    assert record.state is State.ABORTED
    assert resume(store, dying.job) is not None


@pytest.mark.parametrize("has_staged", [True, False])
def test_a_task_that_goes_on_when_its_run_has_ended_leaves_nothing(store: Connection, has_staged: bool) -> None:
    rows = valued([[1, 2, 3, 4, 5, 6]], "x")
    aborted, published = plan(Operation.UPSERT, new_job()), plan(Operation.UPSERT, new_job())
    if has_staged:
        write(store, aborted, rows)
    abandon(store, aborted)
    publish(store, published, write(store, published, rows if has_staged else valued([[1]], "x")))
    for run in (aborted, published):
        with pytest.raises(OperationalError, match="no longer needed"):
            write(store, run, rows, first_attempt=200)
    assert staging_tables(store) == []
    again = plan(Operation.UPSERT, aborted.job)
    assert publish(store, again, write(store, again, rows)).record.published == 6


def test_many_few_rows_go_from_the_messages_into_the_staging_table(
    store: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "RECORD_BYTES", 100)
    fill(store, {})
    run = plan(Operation.INSERT, new_job())
    told = write(store, run, valued([[1, 2], [], [3], [4, 5, 6, 7, 8]], "x"))
    assert [task.staging is not None for task in told] == [False, False, False, True]
    record = publish(store, run, told).record
    assert (record.rows, record.published, len(record.attempts)) == (8, 8, 3)
    assert table_rows(store).keys() == set(range(1, 9))


def test_rows_of_a_key_that_is_not_unique_are_inserted_and_not_resumed() -> None:
    with nyala.connect() as connection:
        connection.execute("CREATE TABLE t (k BIGINT NOT NULL, s STRING, v STRING, NON UNIQUE PRIMARY KEY (k))")
        run = plan(Operation.INSERT)
        publish(connection, run, write(connection, run, [[(1, "a"), (1, "b")]]))
        assert connection.execute("SELECT count(*) FROM t WHERE k = 1").fetchone() == (2,)
        with pytest.raises(NotSupportedError, match="only operation=insert"):
            write(connection, plan(Operation.UPSERT), [[(1, "a")]])
        broken = plan(Operation.INSERT, "broken")
        with suppress(Crash):
            publish(crashing(connection, 2, after=True), broken, write(connection, broken, [[(2, "a")]]), dead_owner())
        with pytest.raises(NotSupportedError, match="not known"):
            resume(connection, "broken")


@pytest.mark.parametrize("operation", [Operation.UPSERT_IGNORE, Operation.OVERWRITE])
def test_immutable_columns_keep_their_values_unless_the_rows_are_replaced(operation: Operation) -> None:
    with nyala.connect() as connection:
        connection.execute("CREATE TABLE t (k BIGINT NOT NULL, s STRING, v STRING IMMUTABLE, PRIMARY KEY (k))")
        connection.execute("INSERT INTO t VALUES (1, 's1', 'old'), (9, 's1', 'old')")
        run = plan(operation)
        publish(connection, run, write(connection, run, [[(1, "new"), (2, "new")]]))
        found = dict(connection.execute("SELECT k, v FROM t").fetchall())
        replaced = {1: "new", 2: "new"}
        assert found == (replaced if operation is Operation.OVERWRITE else {1: "old", 2: "new", 9: "old"})
        with pytest.raises(NotSupportedError, match="upsert_ignore"):
            write(connection, plan(Operation.UPSERT), [[(1, "new")]])


def test_a_cluster_publishes_once_while_its_tablet_servers_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "FEW_ROWS", 30_000)
    monkeypatch.setattr(applying, "CHUNK_ROWS", 30_000)
    rows = [[(k, f"x{k}") for k in range(start, start + 20_000)] for start in (0, 20_000)]
    with MiniCluster(tservers=3, directory=tmp_path) as cluster, nyala.connect(cluster.url) as connection:
        connection.execute(TABLE)
        run = plan(Operation.INSERT, batch_rows=5_000)
        told = [
            write_task(connection, run, partition, 7 + partition, batches(part, size=10_000))
            for partition, part in enumerate(rows)
        ]
        assert staging_tables(connection) == []
        big = plan(Operation.UPSERT, "big", batch_rows=5_000)
        staged = write_task(connection, big, 0, 9, batches([(k, f"x{k}") for k in range(40_000, 120_000)], 10_000))
        with suppress(Crash):
            publish(crashing(connection, 4, after=False), big, [staged], owner=dead_owner())
        cluster.kill(cluster.leader("t"))
        publish(connection, run, told)
        assert publish(connection, big, [staged]).record.state is State.PUBLISHED
        with pytest.raises(AlreadyPresent, match="k = "):
            again = plan(Operation.INSERT, "again")
            publish(connection, again, [write_task(connection, again, 0, 1, batches(rows[0], 10_000))])
        found = connection.execute("SELECT count(*), sum(k), count(DISTINCT v) FROM t").fetchone()
        assert found == (120_000, sum(range(120_000)), 120_000)
        assert staging_tables(connection) == []
