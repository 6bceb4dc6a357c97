"""Spilling: temporary files, rows partitioned by hash, memory accounts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import OperationalError
from nyala.executor.hashing import row_hashes
from nyala.executor.run.memory import Memory
from nyala.executor.spilling.encoded import from_record_batch, to_record_batch
from nyala.executor.spilling.partitions import PARTITIONS, PartitionedRows, SpilledRows, partition_numbers
from nyala.model.types import BIGINT, DOUBLE, INT, STRING, DataType, Kind
from nyala.model.vectors.vector import Batch, Const, Dict, Flat, Narrow, Text, Vector, Wide, vector_from_arrow
from nyala.storage.files.spill_file import SpillFile

WIDE = DataType(Kind.DECIMAL, 38, 0)
VALUES = st.lists(st.one_of(st.none(), st.integers(0, 200)), min_size=1, max_size=300)


def encodings(values: list[int | None]) -> list[Vector]:
    """The same numbers in every form that numbers and their texts have."""
    validity = None if None not in values else np.array([v is not None for v in values])
    plain = np.array([v or 0 for v in values])
    texts = [None if v is None else str(v) for v in values]
    distinct = pa.array([str(i) for i in range(201)])
    return [
        Flat(INT, plain.astype(np.int32), validity),
        Flat(BIGINT, plain.astype(np.int64), validity, 0, 200),
        Narrow(BIGINT, plain.astype(np.uint8), 0, validity, 200),
        Narrow(BIGINT, (plain + 5).astype(np.uint16), -5, validity),
        Flat(WIDE, plain.astype(np.int64), validity),
        Wide(WIDE, pa.array(values, pa.decimal128(38, 0))),
        Text(STRING, pa.array(texts, pa.string())),
        Dict(STRING, plain.astype(np.uint8), distinct, validity, ordered=False),
        vector_from_arrow(STRING, pa.array(texts, pa.string()).dictionary_encode()),
        Flat(DOUBLE, plain.astype(np.float64), validity),
        Const(INT, values[0], len(values)),
        Const(STRING, texts[0], len(values)),
    ]


def types_of(vectors: list[Vector]) -> list[DataType]:
    return [vector.type for vector in vectors]


@given(VALUES)
def test_batches_come_back_as_they_were(values: list[int | None]) -> None:
    vectors = encodings(values)
    file = SpillFile()
    rows = SpilledRows(file, types_of(vectors))
    rows.add(Batch(vectors, len(values)))
    (found,) = rows.batches()
    assert found.to_arrow(["c"] * len(vectors)).equals(Batch(vectors, len(values)).to_arrow(["c"] * len(vectors)))
    for before, after in zip(vectors, found.columns(), strict=True):
        if not isinstance(before, Const):
            assert type(after) is type(before) and after.bounds() == before.bounds()


def test_a_large_dictionary_is_cut_down_to_the_rows() -> None:
    entries = pa.array([f"{i:05d}" for i in range(10_000)])
    vector = Dict(STRING, np.array([9_999, 3, 3], np.uint16), entries, None, ordered=True)
    written = to_record_batch(Batch([vector], 3))
    assert len(written.column(0).dictionary) == 2
    (back,) = from_record_batch(written, [STRING]).columns()
    assert back.to_arrow().to_pylist() == ["09999", "00003", "00003"]


@given(VALUES)
def test_equal_rows_have_equal_hashes_in_every_encoding(values: list[int | None]) -> None:
    vectors = encodings(values)[:-2]
    numbers = [row_hashes([v], len(values)) for v in vectors if not v.type.is_text and not v.type.is_float]
    texts = [row_hashes([v], len(values)) for v in vectors if v.type.is_text]
    for group in (numbers, texts):
        for other in group[1:]:
            assert (other == group[0]).all()
    constant = encodings([values[0]])
    for flat, const in ((0, 10), (6, 11)):
        assert row_hashes([constant[flat]], 1) == row_hashes([encodings(values)[const]], len(values))[0]


@settings(max_examples=examples(30))
@given(VALUES, st.integers(0, 3))
def test_a_partition_has_all_rows_of_its_keys_in_order(values: list[int | None], level: int) -> None:
    vectors = encodings(values)[:1]
    rows = Batch([*vectors, Flat(BIGINT, np.arange(len(values)))], len(values))
    parted = PartitionedRows(SpillFile(), [INT, BIGINT])
    parted.add(rows, partition_numbers(vectors, rows.length, level))
    seen: dict[int | None, int] = {}
    numbers = []
    for part, spilled in enumerate(parted.parts):
        found = [(k, n) for b in spilled.batches() for k, n in zip(*[c.to_arrow().to_pylist() for c in b.columns()])]
        assert [n for _, n in found] == sorted(n for _, n in found)
        numbers += [n for _, n in found]
        assert all(seen.setdefault(k, part) == part for k, _ in found)
    assert sorted(numbers) == list(range(len(values)))
    assert sum(part.rows for part in parted.parts) == len(values)


def test_levels_cut_what_another_level_left_together() -> None:
    keys = [Flat(BIGINT, np.arange(100_000))]
    first, second = (partition_numbers(keys, 100_000, level) for level in (0, 1))
    cells = np.bincount(first.astype(np.intp) * PARTITIONS + second, minlength=PARTITIONS**2)
    assert cells.min() > 300 and cells.max() < 480


# ---- files -----------------------------------------------------------------------------------------------------------


def test_the_file_has_no_name(tmp_path: Path) -> None:
    rows = SpilledRows(SpillFile(str(tmp_path)), [BIGINT])
    rows.add(Batch([Flat(BIGINT, np.arange(1000))], 1000))
    assert rows.file.size > 8000 and not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match=r"the temporary directory .*nowhere cannot be used .*temp_directory"):
        SpillFile(str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, time, pyarrow as pa; from nyala.storage.files.spill_file import SpillFile;"
        f"f = SpillFile({str(tmp_path)!r}); f.write(pa.record_batch([pa.array(range(100000))], names=['a']));"
        "print('written', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "written\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not list(tmp_path.iterdir())


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_an_operator_keeps_its_guarantee_whatever_others_take() -> None:
    memory = Memory(800, holders=4)
    greedy, late = memory.account("a sort"), memory.account("a join")
    assert greedy.grow(500) and not greedy.grow(1)  # the guarantee of 100, and the common half
    assert late.grow(100) and not late.grow(1)
    greedy.shrink(50)
    assert late.grow(50) and not late.grow(1)
    with pytest.raises(OperationalError, match=r"a join needs 0\.2 kB that cannot be spilled"):
        late.hold(1)
    del greedy
    assert late.grow(350) and not late.grow(1)
    assert late.usage.peak == 500


def test_no_limit_refuses_nothing() -> None:
    account = Memory(None).account("a sort")
    assert account.grow(1 << 60) and account.room is None


def test_threads_share_a_limit() -> None:
    memory = Memory(1000, holders=1)
    account = memory.account("an aggregation")
    taken: list[bool] = []

    def take() -> None:
        taken.extend(account.grow(1) for _ in range(300))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 1000 == account.size
