"""Hashes: the numpy twins against the scalar definitions, and the values that files depend on."""

from __future__ import annotations

import struct

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.model.keys.hashing import (
    LONG_BYTES,
    hash64_text,
    hash64_text_one,
    hash64_word,
    hash64_words,
    murmur3_32,
    murmur3_32_binary,
    murmur3_32_fixed,
)

SEEDS = st.integers(0, 2**32 - 1)
BYTES = st.one_of(st.binary(max_size=40), st.binary(min_size=LONG_BYTES - 1, max_size=LONG_BYTES + 2))


@given(st.lists(BYTES), SEEDS, st.integers(0, 3))
def test_bulk_murmur3_equals_mmh3(values: list[bytes], seed: int, skipped: int) -> None:
    array = pa.array(values, pa.binary()).slice(min(skipped, len(values)))
    expected = [mmh3.hash(v, seed, signed=False) for v in values[skipped:]]
    assert murmur3_32_binary(array, seed).tolist() == expected


@given(st.integers(1, 19), st.integers(0, 5), SEEDS, st.randoms(use_true_random=False))
def test_fixed_width_murmur3_equals_mmh3(width: int, rows: int, seed: int, random: object) -> None:
    matrix = np.frombuffer(random.randbytes(width * rows), np.uint8).reshape(rows, width)  # type: ignore[attr-defined]
    assert murmur3_32_fixed(matrix, seed).tolist() == [mmh3.hash(row.tobytes(), seed, signed=False) for row in matrix]


def test_many_rows_hash_as_one_does() -> None:
    matrix = np.arange(50_000, dtype=">u8").view(np.uint8).reshape(-1, 8)
    texts = pa.array([str(i) * (i % 5) for i in range(50_000)]).cast(pa.binary())
    rows = [0, 16_383, 16_384, 32_768, 49_999]
    assert murmur3_32_fixed(matrix, 3)[rows].tolist() == [murmur3_32(matrix[r].tobytes(), 3) for r in rows]
    assert murmur3_32_binary(texts, 3)[rows].tolist() == [murmur3_32(texts[r].as_py(), 3) for r in rows]


def _murmur_64a(data: bytes) -> int:
    """MurmurHash64A with seed 0 from its definition (Austin Appleby, public domain)."""
    m, mask = 0xC6A4A7935BD1E995, 2**64 - 1
    h = len(data) * m & mask
    whole = len(data) // 8 * 8
    for (k,) in struct.iter_unpack("<Q", data[:whole]):
        k = k * m & mask
        k = (k ^ k >> 47) * m & mask
        h = (h ^ k) * m & mask
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 47) * m & mask
    return h ^ h >> 47


@given(st.lists(BYTES), st.integers(0, 3))
def test_text_words_follow_their_definition(values: list[bytes], skipped: int) -> None:
    expected = [_murmur_64a(v) if len(v) <= LONG_BYTES else mmh3.hash64(v, 0, signed=False)[0] for v in values]
    assert hash64_text(pa.array(values, pa.binary()).slice(min(skipped, len(values)))).tolist() == expected[skipped:]


def _fmix(h: int) -> int:
    mask = 2**64 - 1
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & mask
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & mask
    return h ^ h >> 33


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2), min_size=1))
def test_words_are_mixed_as_documented(rows: list[tuple[int, int]]) -> None:
    hashes = np.zeros(len(rows), np.uint64)
    for column in range(2):
        hash64_words(hashes, np.array([row[column] for row in rows], np.int64))
    expected = []
    for row in rows:
        h = 0
        for word in row:
            h = _fmix((h + 0x9E3779B97F4A7C15 ^ word % 2**64) % 2**64)
        expected.append(h)
    assert hashes.tolist() == expected
    assert [hash64_word(hash64_word(0, a), b) for a, b in rows] == expected


@given(st.lists(BYTES))
def test_one_text_hashes_as_many_do(values: list[bytes]) -> None:
    assert [hash64_text_one(v) for v in values] == hash64_text(pa.array(values, pa.binary())).tolist()


def test_the_precedence_of_the_documented_formula() -> None:
    assert (1 + 2 ^ 4) == ((1 + 2) ^ 4)  # the test above relies on Python's reading


def test_dense_integers_spread_over_all_bits() -> None:
    hashes = np.zeros(1 << 16, np.uint64)
    hash64_words(hashes, np.arange(1 << 16, dtype=np.int64))
    for bit in range(64):
        share = float(np.mean((hashes >> np.uint64(bit)) & np.uint64(1)))
        assert share == pytest.approx(0.5, abs=0.02)


def test_hash_values_never_change() -> None:
    """Stored Bloom filters and the routing of rows depend on these very numbers."""
    hashes = np.zeros(3, np.uint64)
    hash64_words(hashes, np.array([0, 1, -1]))
    assert [f"{h:016x}" for h in hashes.tolist()] == PINNED_WORDS
    assert [f"{h:016x}" for h in hash64_text(pa.array(["", "nyala", "x" * 300])).tolist()] == PINNED_TEXTS
    assert murmur3_32(b"nyala", 7) == 0x7D301355


PINNED_WORDS = ["9ca066f1a4ab2eea", "25b775faeca8f520", "3cd617bbbcc39640"]
PINNED_TEXTS = ["0000000000000000", "84f8301a4ddbbf34", "5934efe32fb7671d"]
