"""Recorded results of calls: in memory, in the file, and their lifetime."""

from __future__ import annotations

import pytest
from nyala.cluster.consensus.log.tracked import CallHeader
from nyala.cluster.tablets.exactly_once import (
    IDLE_SECONDS,
    ExactlyOnceTable,
    SavedResults,
    decode_result,
    encode_result,
)
from nyala.cluster.wire.messages.methods import Call
from nyala.errors import AlreadyPresent, DeadlineExceeded, NotNullViolation, NotTheLeader, ProtocolError
from nyala.model.clock import LOGICAL_BITS
from nyala.model.store import RowError, Timestamp, WriteResult
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.log.wal import LogTicket

ONE, TWO = "1" * 32, "2" * 32
SECOND = 1_000_000 << LOGICAL_BITS


def header(client: str, sequence: int, first: int = 1, result: bytes = b"r") -> CallHeader:
    return CallHeader(client, sequence, first, result)


def ask(results: ExactlyOnceTable, client: str, sequence: int) -> bytes | None:
    def wait(ticket: LogTicket) -> None:
        if not ticket.is_decided:
            raise DeadlineExceeded("not yet")

    call = Call(client, sequence, 1)
    found = results.begin(call, wait, 0.0)
    if found is None:
        results.end(call)
    return found


def test_results_survive_being_bytes() -> None:
    errors = (RowError(3, AlreadyPresent("there")), RowError(9, NotNullViolation("null")))
    result = WriteResult(7, errors, Timestamp(1 << 62))
    found = decode_result(encode_result(result))
    assert (found.applied, found.timestamp) == (7, 1 << 62)
    assert [(e.row, type(e.error), str(e.error)) for e in found.errors] == [
        (3, AlreadyPresent, "there"),
        (9, NotNullViolation, "null"),
    ]
    with pytest.raises(ProtocolError):
        decode_result(b"\xc1")


def test_a_result_counts_when_its_entry_is_decided() -> None:
    results, ticket = ExactlyOnceTable(), LogTicket(1)
    results.note(header(ONE, 1), 1, SECOND, ticket)
    with pytest.raises(DeadlineExceeded):
        ask(results, ONE, 1)
    assert results.save(1).clients[0].results == ()
    ticket.durable = True
    assert ask(results, ONE, 1) == b"r"
    failed = LogTicket(2)
    results.note(header(ONE, 2), 2, SECOND, failed)
    failed.error = NotTheLeader("cut off")
    assert ask(results, ONE, 2) is None


def test_a_call_that_is_being_done_is_not_done_twice() -> None:
    results = ExactlyOnceTable()
    call = Call(ONE, 1, 1)
    assert results.begin(call, lambda ticket: None, 0.0) is None
    with pytest.raises(DeadlineExceeded, match="still in progress"):
        results.begin(call, lambda ticket: None, 0.0)
    results.end(call)
    assert results.begin(call, lambda ticket: None, 0.0) is None


def test_what_was_answered_and_who_is_idle_is_forgotten() -> None:
    now = 5.0
    results = ExactlyOnceTable(now=lambda: now)
    for sequence in range(1, 6):
        results.note(header(ONE, sequence), sequence, SECOND)
    results.note(header(ONE, 6, first=4), 6, SECOND)
    with pytest.raises(ProtocolError, match="was answered"):
        ask(results, ONE, 3)
    assert ask(results, ONE, 4) == ask(results, ONE, 5) == b"r"
    now = 5.0 + IDLE_SECONDS - 10
    results.note(header(TWO, 1), 7, 2 * SECOND)
    assert ask(results, ONE, 4) == b"r"
    now = 5.0 + IDLE_SECONDS + 100
    results.note(header(TWO, 2), 8, 3 * SECOND)
    assert ask(results, ONE, 4) is None
    assert ask(results, TWO, 1) == b"r"


def test_timestamps_make_nobody_forgotten() -> None:
    """Of a leader or a client whose clock is days ahead, also after the replica was reopened."""
    results = ExactlyOnceTable()
    results.note(header(ONE, 1), 1, SECOND)
    results.note(header(TWO, 1), 2, 1000 * IDLE_SECONDS * SECOND)
    results.note(header(TWO, 2), 3, 2000 * IDLE_SECONDS * SECOND)
    again = ExactlyOnceTable(results.save(3))
    again.note(header(TWO, 3), 4, 3000 * IDLE_SECONDS * SECOND)
    assert ask(results, ONE, 1) == ask(again, ONE, 1) == b"r"


def test_the_file_has_what_is_decided_and_is_not_overridden_by_older_entries() -> None:
    fs = MemoryFileSystem()
    fs.make_directory("/d")
    results = ExactlyOnceTable()
    results.note(header(ONE, 1, result=b"one"), 10, SECOND)
    results.note(header(ONE, 2, first=2, result=b"two"), 20, SECOND)
    results.note(header(TWO, 1), 30, SECOND)
    saved = results.save(20)
    saved.write(fs, "/d")
    assert SavedResults.read(fs, "/d") == SavedResults.from_bytes(saved.to_bytes()) == saved
    again = ExactlyOnceTable(SavedResults.read(fs, "/d"))
    again.note(header(ONE, 1, result=b"one"), 10, SECOND)
    with pytest.raises(ProtocolError):
        ask(again, ONE, 1)
    assert ask(again, ONE, 2) == b"two"
    assert ask(again, TWO, 1) is None
    assert SavedResults.read(fs, "/nowhere") == SavedResults()
