"""The record of jobs and the lease: of several drivers that request one, exactly one gets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import nyala
import pytest
from nyala.driver.connection import Connection
from nyala.errors import InterfaceError, LimitExceeded, OperationalError, ServerUnavailable
from nyala.spark.writing.jobs import (
    MAX_JOB_BYTES,
    JobRecord,
    Jobs,
    State,
    check_job,
    pack_attempts,
    unpack_attempts,
)
from nyala.spark.writing.lease import ABANDONED_SECONDS, LEASE_SECONDS, Lease, is_abandoned, owner_name
from nyala.spark.writing.operations import Operation
from spark_writing_support import dead_owner


@pytest.fixture
def connection() -> Iterator[Connection]:
    with nyala.connect() as connection:
        yield connection


def record(job: str = "job", **fields: Any) -> JobRecord:
    given: dict[str, Any] = {"state": State.WRITING, "owner": owner_name(), **fields}
    return JobRecord(job=job, target="t", operation=Operation.UPSERT, **given)


def test_a_record_comes_back_as_it_was_written(connection: Connection) -> None:
    jobs = Jobs(connection)
    assert jobs.find("it's a job") is None
    made = jobs.change(
        None, record("it's a job", staging="s", moment=7 << 12, attempts=(3, 1 << 40), few=b"\0rows", rows=5)
    )
    assert made is not None
    assert jobs.find("it's a job") == made
    assert jobs.all("it's") == [replace(made, few=None)]
    assert jobs.all("other") == []


def test_only_what_was_seen_is_changed(connection: Connection) -> None:
    jobs = Jobs(connection)
    first = jobs.change(None, record())
    assert first is not None
    assert jobs.change(None, record()) is None
    second = jobs.change(first, replace(first, state=State.PUBLISHING))
    assert second is not None
    assert jobs.change(first, replace(first, state=State.ABORTED)) is None
    assert jobs.find("job") == second
    jobs.forget([first])
    assert jobs.find("job") == second


def test_of_many_threads_one_makes_each_change(connection: Connection) -> None:
    jobs, steps = Jobs(connection), 20
    start = threading.Barrier(4)
    won: list[int] = []

    def work() -> None:
        start.wait()
        while (seen := jobs.find("job")) is None or seen.step < steps:
            made = jobs.change(seen, record())
            if made is not None:
                won.append(made.step)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(1, max(won) + 1))


def test_a_change_whose_answer_is_lost_is_known_by_its_owner(connection: Connection) -> None:
    jobs = Jobs(connection)
    store: Any = connection.store
    write = store.write

    def silent(*args: Any) -> Any:
        write(*args)
        raise ServerUnavailable("gone")

    store.write = silent
    made = jobs.change(None, record())
    store.write = write
    assert made is not None
    assert jobs.find("job") == made


def test_touching_keeps_a_record_young_only_while_its_tasks_write(connection: Connection) -> None:
    jobs = Jobs(connection)
    made = jobs.change(None, record())
    assert made is not None
    jobs.touch("job")
    touched = jobs.find("job")
    assert touched is not None
    assert touched.updated > made.updated
    published = jobs.change(touched, replace(touched, state=State.PUBLISHED))
    jobs.touch("job")
    assert jobs.find("job") == published


def test_who_has_gone_is_known_by_time_or_by_the_process(connection: Connection) -> None:
    jobs = Jobs(connection)
    made = jobs.change(None, record(state=State.PUBLISHING))
    assert made is not None
    assert not is_abandoned(made, jobs.now())
    assert is_abandoned(made, jobs.now() + timedelta(seconds=ABANDONED_SECONDS + 1))
    assert is_abandoned(replace(made, owner=dead_owner()), jobs.now())
    assert not is_abandoned(replace(made, owner=f"elsewhere/{2**30}/ab"), jobs.now())


def test_a_lease_that_somebody_has_taken_over_is_lost(connection: Connection) -> None:
    jobs = Jobs(connection)
    made = jobs.change(None, record(state=State.PUBLISHING, few=b"rows"))
    assert made is not None
    with Lease(jobs, made) as lease:
        lease.add(3)
        lease.renew()
        renewed = jobs.find("job")
        assert renewed is not None
        assert (renewed.published, renewed.few) == (3, b"rows")
        taken = jobs.change(renewed, replace(renewed, owner=owner_name()))
        with pytest.raises(OperationalError, match="another process"):
            lease.finish(State.PUBLISHED)
        with pytest.raises(OperationalError):
            lease.check()
    assert jobs.find("job") == taken


def test_a_lease_ends_before_others_may_go_on(connection: Connection) -> None:
    jobs = Jobs(connection)
    made = jobs.change(None, record(state=State.PUBLISHING))
    assert made is not None
    seconds = [0.0]
    with Lease(jobs, made, clock=lambda: seconds[0]) as lease:
        seconds[0] = LEASE_SECONDS - 1
        lease.check()
        seconds[0] = LEASE_SECONDS + 1
        with pytest.raises(OperationalError, match="renewed"):
            lease.check()
        lease.renew()
        lease.check()
        assert lease.finish(State.PUBLISHED).few is None
    assert LEASE_SECONDS < ABANDONED_SECONDS


@pytest.mark.parametrize("job", ["", "  ", "k" * 1025, "é" * 600, "a\0b"])
def test_keys_that_no_job_can_have_are_refused_at_once(job: str) -> None:
    """An empty one, of a template's unset variable, would be that of all such jobs."""
    with pytest.raises(InterfaceError, match="idempotencyKey"):
        check_job(job)
    check_job("k" * MAX_JOB_BYTES)


def test_a_refusal_is_no_lost_race(connection: Connection) -> None:
    jobs = Jobs(connection)
    with pytest.raises(LimitExceeded, match="key"):
        jobs.change(None, record("k" * 20_000))
    first = jobs.change(None, record())
    assert first is not None
    with pytest.raises(LimitExceeded, match="few"):
        jobs.change(first, replace(first, few=b"x" * (2 << 20)))
    assert jobs.find("job") == first


def test_the_attempts_of_very_many_tasks_and_long_messages_fit_into_a_record(connection: Connection) -> None:
    jobs = Jobs(connection)
    attempts = tuple(range(5, 3_000_005, 3))
    assert len(pack_attempts(attempts)) < 20_000
    jobs.change(None, record(attempts=attempts, message="m" * (2 << 20)))
    found = jobs.find("job")
    assert found is not None and found.attempts == attempts and found.message == "m" * 100_000
    assert unpack_attempts(msgspec.msgpack.encode((3, 9))) == (3, 9)  # as earlier versions wrote them
    assert unpack_attempts(None) == unpack_attempts(pack_attempts(())) == ()
