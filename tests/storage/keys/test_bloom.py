"""The chunked Bloom filter: never a false no, about 1 % false yes, damage found."""

from __future__ import annotations

import numpy as np
import pytest
from columnar_support import WatchedFileSystem
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import CorruptionError
from nyala.storage.columns.column_file import ROW_GROUP_ROWS
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.page_cache import PageCache
from nyala.storage.keys.bloom import BloomProbe, BloomReader, build_chunk, probe_chunk, write_bloom


def hashes(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50), st.integers(0, 2**64 - 1))
def test_what_was_put_in_is_found_and_both_probes_agree(present: list[int], other: int) -> None:
    keys = np.array(present, np.uint64)
    chunk = build_chunk(keys)
    assert probe_chunk(chunk, keys).all()
    assert all(BloomProbe(h).passes(chunk) for h in present)
    assert BloomProbe(other).passes(chunk) == probe_chunk(chunk, np.array([other], np.uint64))[0]


def test_about_one_percent_false_positives_at_ten_bits_per_key() -> None:
    chunk = build_chunk(hashes(1, 65_536))
    assert len(chunk) * 8 / 65_536 == pytest.approx(10.5, abs=0.1)
    assert 0.003 < probe_chunk(chunk, hashes(2, 100_000)).mean() < 0.013


def test_golden_chunk() -> None:
    # The bits are part of the file format: a filter written today must answer in ten years.
    chunk = build_chunk(np.array([0x0123456789ABCDEF], np.uint64))
    assert chunk.hex(" ", 4) == "00000400 00000800 00000040 00008000 10000000 00000100 00100000 00000001"


def test_one_key_is_answered_as_many_are() -> None:
    chunk, others = build_chunk(hashes(5, 3_000)), hashes(6, 3_000)
    assert [BloomProbe(h).passes(chunk) for h in others.tolist()] == probe_chunk(chunk, others).tolist()


def open_bloom(fs: WatchedFileSystem, rows: int) -> BloomReader:
    return BloomReader(FileHandles(fs), "b", rows, PageCache(1 << 20))


def test_one_chunk_per_row_group() -> None:
    rows = ROW_GROUP_ROWS + 4_464
    keys = hashes(3, rows)
    fs = WatchedFileSystem()
    assert write_bloom(fs, "b", keys) == len(fs.get("b"))
    bloom = open_bloom(fs, rows)
    assert probe_chunk(bloom.chunk(0), keys[:ROW_GROUP_ROWS]).all()
    assert probe_chunk(bloom.chunk(1), keys[ROW_GROUP_ROWS:]).all()
    assert len(bloom.chunk(1)) < len(bloom.chunk(0)) / 10


def test_every_flipped_byte_and_every_cut_is_found() -> None:
    fs = WatchedFileSystem()
    write_bloom(fs, "b", hashes(4, 30))
    intact = bytes(fs.get("b"))
    for place in range(len(intact)):
        damaged = bytearray(intact)
        damaged[place] ^= 0x10
        for data in (damaged, intact[:place]):
            fs.put("b", data)
            with pytest.raises(CorruptionError):
                open_bloom(fs, 30).read_chunk(0)
    fs.put("b", intact[:20] + b"\xff" + intact[21:])
    with pytest.raises(CorruptionError, match="b: chunk 0 at offset 16: the checksum is wrong"):
        open_bloom(fs, 30).read_chunk(0)
