"""Groups by hash, compiled and in NumPy, are those of a dictionary of Python values, for all types of keys."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from executor_support import encoded
from nyala.executor.kernels.groups import hash_groups
from nyala.executor.kernels.groups import segments as group_segments
from nyala.executor.kernels.groups.segments import segments
from nyala.model.types import BIGINT, DECIMAL, DOUBLE, STRING, TIMESTAMP


@pytest.fixture(params=["compiled", "numpy"])
def grouping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = request.getfixturevalue("kernels") if request.param == "compiled" else None
    monkeypatch.setattr(hash_groups, "compiled", kernels)
    monkeypatch.setattr(group_segments, "HASHED_ROWS", 2)


def numbers_of(values: list[Any]) -> list[int]:
    """Number equal values alike, by first occurrence; NaNs are equal, and so are 0.0 and -0.0."""
    seen: dict[Any, int] = {}
    names = [
        tuple("NaN" if isinstance(part, float) and math.isnan(part) else part for part in row) for row in zip(*values)
    ]
    return [seen.setdefault(name, len(seen)) for name in names]


EXTREMES = [-(2**63), 2**63 - 1, 0, -1, 1]
POOLS: dict[str, tuple[Any, list[Any]]] = {
    "bigint": (BIGINT, [*EXTREMES, *(int(x) for x in np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 40))]),
    "progression": (BIGINT, [i << 40 for i in range(-60, 60)]),
    "double": (DOUBLE, [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1e308, 0.1, -7.5]),
    "text": (STRING, ["", "a", "ab", "\u00e4", "z" * 300, *(f"text {i}" for i in range(30))]),
    "decimal": (DECIMAL(38, 4), [Decimal(10**33) * i for i in range(-9, 9)] + [Decimal("0.0001"), Decimal(0)]),
    "timestamp": (TIMESTAMP, [i * 86_400_000_000_123 for i in range(-30, 30)]),
    "small": (BIGINT, [1, 2, 3]),
}
KEYS = [
    ("bigint",),
    ("progression",),
    ("double",),
    ("text",),
    ("decimal",),
    ("timestamp",),
    ("bigint", "double"),
    ("double", "bigint", "text"),
    ("small", "bigint", "decimal", "timestamp", "progression"),
    ("small", "double"),
]


@pytest.mark.usefixtures("grouping")
@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("names", KEYS, ids="-".join)
def test_groups_are_those_of_python(names: tuple[str, ...], nulls: float) -> None:
    rng = np.random.default_rng(len(names))
    for length in (1, 2, 3, 50, 3000):
        keys, values = [], []
        for name in names:
            type_, pool = POOLS[name]
            column = [
                None if missing else pool[i]
                for i, missing in zip(rng.integers(0, len(pool), length), rng.random(length) < nulls, strict=True)
            ]
            array = (
                pa.array(column, pa.int64()).cast(type_.arrow) if name == "timestamp" else pa.array(column, type_.arrow)
            )
            keys.append(encoded(type_, array))
            values.append(column)
        groups = segments(keys, length)
        wanted = numbers_of(values)
        numbers = groups.group_of_row()
        assert len(groups) == max(wanted) + 1
        assert len(set(zip(numbers.tolist(), wanted, strict=True))) == len(groups)
        order = np.arange(length) if groups.order is None else groups.order
        assert sorted(order.tolist()) == list(range(length))
        # The rows of a group keep their order, so its representative is its first row.
        assert groups.representatives.tolist() == [wanted.index(wanted[row]) for row in groups.representatives]
        assert (np.diff(order)[np.diff(numbers.take(order)) == 0] > 0).all()


@pytest.mark.parametrize("distinct", [1, 1000, 300_000])
def test_partitions_of_many_rows_have_the_groups_of_unique(kernels: Any, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    codes = (rng.integers(0, distinct, 400_000).astype(np.uint64) * np.uint64(2**43 + 1)) ^ np.uint64(7)
    order, starts = np.empty(len(codes), np.intp), np.empty(len(codes), np.intp)
    count = kernels.group_rows((codes,), order, starts)
    values, sizes = np.unique(codes, return_counts=True)
    assert count == len(values)
    starts = starts[:count]
    assert (np.sort(order) == np.arange(len(codes))).all()
    by_value = np.argsort(codes.take(order.take(starts)))
    assert (codes.take(order.take(starts)).take(by_value) == values).all()
    assert (np.diff(starts, append=len(codes)).take(by_value) == sizes).all()
    ordered = codes.take(order)
    assert (ordered == np.repeat(ordered.take(starts), np.diff(starts, append=len(codes)))).all()


def test_numbers_are_the_same_compiled_or_not(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(3).integers(0, 2**64 - 1, 500, dtype=np.uint64).repeat(3)
    np.random.default_rng(4).shuffle(codes)
    found = []
    for compiled in (kernels, None):
        monkeypatch.setattr(hash_groups, "compiled", compiled)
        found.append(hash_groups.number_rows(codes))
    assert (found[0][0] == found[1][0]).all()
    assert found[0][1] == found[1][1] == 500


_MASK = 2**64 - 1


def _mixed(code: int) -> int:
    """The hash of one column in the kernel."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        code = (code ^ code >> 33) * factor & _MASK
    return code ^ code >> 33


def test_rows_of_equal_hashes_are_compared(kernels: Any) -> None:
    """The second columns are chosen so that all rows have one hash; every other row repeats the one before."""
    first = list(range(300))
    second = [-_mixed(code) * 0x9E3779B97F4A7C15 & _MASK for code in first]
    columns = tuple(np.array(column, np.uint64).repeat(2) for column in (first, second))
    order, starts = np.empty(600, np.intp), np.empty(600, np.intp)
    assert kernels.group_rows(columns, order, starts) == 300
    assert (starts[:300] == np.arange(0, 600, 2)).all()
    assert (order == np.arange(600)).all()


def test_texts_of_equal_hashes_are_compared(kernels: Any) -> None:
    """Texts of two words: the second is what the hash of the first left, so that both cancel out."""

    def text(number: int) -> bytes:
        left = (16 * 0x9E3779B97F4A7C15 & _MASK ^ number) * 0xFF51AFD7ED558CCD & _MASK
        return number.to_bytes(8, "little") + (left ^ left >> 32).to_bytes(8, "little")

    texts = [text(number) for number in [*range(200), *range(199, -1, -1)]]
    numbers = np.empty(400, np.uint32)
    offsets = np.arange(0, 401 * 16, 16, dtype=np.int32)
    assert kernels.number_texts(offsets, np.frombuffer(b"".join(texts), np.uint8), numbers) == 200
    assert (numbers == [*range(200), *range(199, -1, -1)]).all()


@pytest.mark.parametrize("distinct", [3, 3000])
def test_several_columns_have_the_groups_of_python(kernels: Any, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    columns = tuple(rng.integers(0, distinct, 30_000).astype(np.uint64) << np.uint64(50) for _ in range(3))
    order, starts = np.empty(30_000, np.intp), np.empty(30_000, np.intp)
    count = kernels.group_rows(columns, order, starts)
    rows: dict[tuple[int, ...], list[int]] = {}
    for row, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        rows.setdefault(key, []).append(row)
    assert count == len(rows)
    found = [part.tolist() for part in np.split(order, starts[1:count])]
    assert sorted(found) == sorted(rows.values())


def test_numbers_of_texts_are_the_same_compiled_or_not(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = [*("x" * n for n in range(40)), "\u00e4", "a\0", "a", "aaaaaaab", "aaaaaaac", "baaaaaaa"]
    texts = pa.array([pool[i] for i in np.random.default_rng(5).integers(0, len(pool), 5000)])
    for array in (texts, texts.slice(17, 900), texts.slice(3, 0), pa.array([], pa.string()), pa.array([""])):
        found = []
        for compiled in (kernels, None):
            monkeypatch.setattr(hash_groups, "compiled", compiled)
            found.append(hash_groups.number_texts(array))
        assert found[0][1] == found[1][1] == len(array.unique())
        assert (found[0][0] == found[1][0]).all()


@pytest.mark.usefixtures("grouping")
@pytest.mark.parametrize("bits", [1, 3, 12])
@pytest.mark.parametrize("length", [0, 1, 5000])
def test_partitions_have_each_row_once_and_equal_rows_together(length: int, bits: int) -> None:
    rng = np.random.default_rng(length)
    columns = [rng.integers(0, 40, length).astype(np.uint64) for _ in range(2)]
    partitions = hash_groups.partition_rows(columns, bits)
    assert len(partitions) == 1 << bits
    assert np.sort(np.concatenate(partitions)).tolist() == list(range(length))
    of_key: dict[tuple[int, int], int] = {}
    for number, rows in enumerate(partitions):
        assert (np.diff(rows) > 0).all()
        for key in zip(*(column.take(rows).tolist() for column in columns), strict=True):
            assert of_key.setdefault(key, number) == number
    if length > 1000:
        assert len(set(of_key.values())) > 1


def test_buffers_that_do_not_fit_are_refused(kernels: Any) -> None:
    codes, room = np.zeros(9, np.uint64), np.zeros(9, np.int64)
    with pytest.raises(ValueError, match="order: at least 9 items of 8 bytes are needed, got 8 of 8"):
        kernels.group_rows((codes,), room[:8], room)
    with pytest.raises(ValueError, match="starts: at least 9"):
        kernels.group_rows((codes,), room.copy(), np.zeros(9, np.int32))
    with pytest.raises(ValueError, match="numbers: at least 9 items of 4 bytes"):
        kernels.number_rows((codes,), room, np.zeros(9, np.uint32))
    with pytest.raises(ValueError, match="firsts: at least 9 items of 4 bytes"):
        kernels.number_rows((codes,), np.zeros(9, np.uint32), np.zeros(8, np.uint32))
    with pytest.raises((ValueError, BufferError)):
        kernels.group_rows((codes[::2],), room, room.copy())
    for wrong in (codes, (), (codes,) * 65):
        with pytest.raises(ValueError, match="codes: a tuple of 1 to 64 columns"):
            kernels.group_rows(wrong, room, room.copy())
    with pytest.raises(ValueError, match="codes: at least 9 items of 8 bytes are needed, got 8"):
        kernels.group_rows((codes, codes[:8]), room, room.copy())
    for bits in (0, 13):
        with pytest.raises(ValueError, match=f"bits: 1 to 12 are possible, got {bits}"):
            kernels.partition_rows((codes,), bits, room, room)
    with pytest.raises(ValueError, match="order: at least 9"):
        kernels.partition_rows((codes,), 1, room[:8], room)
    with pytest.raises(ValueError, match="ends: at least 16"):
        kernels.partition_rows((codes,), 4, room, room.copy())
    numbers = np.zeros(2, np.uint32)
    with pytest.raises(ValueError, match="data: at least 5 items of 1 bytes"):
        kernels.number_texts(np.array([0, 2, 5], np.int32), np.zeros(4, np.uint8), numbers)
    with pytest.raises(ValueError, match="offsets: they must ascend"):
        kernels.number_texts(np.array([0, 6, 5], np.int32), np.zeros(5, np.uint8), numbers)
    assert kernels.group_rows((codes[:0],), room[:0], room[:0]) == 0
