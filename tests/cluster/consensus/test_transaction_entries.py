"""PREPARE and RESOLVE entries as bytes."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.consensus.log.tracked import CallHeader, as_log_entry, encode_tracked
from nyala.cluster.consensus.log.transaction_entries import (
    PreparedNote,
    Resolution,
    decode_note,
    decode_prepare,
    decode_resolution,
    encode_note,
    encode_prepare,
    encode_resolution,
)
from nyala.cluster.raft.messages import Entry
from nyala.errors import CorruptionError
from nyala.storage.log.wal_format import EntryKind

IDS = st.uuids().map(lambda number: number.hex)


@given(IDS, st.text(), st.text(), st.lists(IDS), st.binary())
def test_a_prepare_entry_has_its_note_and_its_rows(
    transaction: str, table: str, tablet: str, forgotten: list[str], rows: bytes
) -> None:
    note = PreparedNote(transaction, table, tablet, tuple(forgotten))
    body = encode_prepare(encode_note(note), rows)
    encoded, found = decode_prepare(memoryview(body), "entry 1")
    assert (decode_note(encoded), bytes(found)) == (note, rows)
    assert (len(body) - len(rows)) % 8 == 0


@pytest.mark.parametrize("length", [0, 3, 7, 9, 20])
def test_a_prepare_entry_that_is_cut_short_is_damage(length: int) -> None:
    body = encode_prepare(encode_note(PreparedNote(uuid.uuid4().hex, "t1", "t1-p0")), b"")
    with pytest.raises(CorruptionError, match="entry 7"):
        decode_prepare(memoryview(body[:length]), "entry 7")


def test_a_resolution_that_is_none_is_damage() -> None:
    with pytest.raises(CorruptionError, match="entry 7"):
        decode_resolution(b"\x93\x01\x02\x03", "entry 7")


@given(IDS, st.integers(0, 2**62), st.booleans())
def test_a_decision_is_a_resolution_within_a_tracked_entry(transaction: str, timestamp: int, is_lasting: bool) -> None:
    resolution = Resolution(transaction, timestamp)
    header = CallHeader(transaction, 1, 0, b"result", is_lasting)
    body = encode_tracked(header, EntryKind.RESOLVE, encode_resolution(resolution))
    entry, found = as_log_entry(Entry(2, 9, 17, int(EntryKind.TRACKED), body))
    assert (entry.kind, entry.index, entry.timestamp, found) == (EntryKind.RESOLVE, 9, 17, header)
    assert decode_resolution(entry.body, "entry 9") == resolution
    assert resolution.is_committed is (timestamp > 0)
