"""Groups by hash, compiled and in NumPy, are those of a dictionary of Python values, for all types of keys."""

from __future__ import annotations

import importlib.util
import math
import shutil
import subprocess
import sysconfig
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import nyala
import pyarrow as pa
import pytest
from executor_support import encoded
from nyala.executor.aggregation import group_codes, hash_groups
from nyala.executor.aggregation.group_codes import segments
from nyala.model.types import BIGINT, DECIMAL, DOUBLE, STRING, TIMESTAMP

SOURCE = Path(nyala.__file__).parent / "compiled" / "grouping.c"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The compiled kernels, built from their source."""
    compiler = shutil.which("cc")
    if compiler is None or not SOURCE.exists():
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("compiled") / "compiled.abi3.so"
    include = f"-I{sysconfig.get_paths()['include']}"
    done = subprocess.run(
        [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", include, str(SOURCE), "-o", str(made)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Python.h" in done.stderr:
        pytest.skip("Python's headers are not installed")
    assert not done.returncode, done.stderr
    spec = importlib.util.spec_from_file_location("compiled", made)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["compiled", "numpy"])
def grouping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = request.getfixturevalue("kernels") if request.param == "compiled" else None
    monkeypatch.setattr(hash_groups, "compiled", kernels)
    monkeypatch.setattr(group_codes, "_HASHED_ROWS", 2)


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
    count = kernels.group_rows(codes, order, starts)
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


def test_buffers_that_do_not_fit_are_refused(kernels: Any) -> None:
    codes, room = np.zeros(9, np.uint64), np.zeros(9, np.int64)
    with pytest.raises(ValueError, match="order: at least 9 items of 8 bytes are needed, got 8 of 8"):
        kernels.group_rows(codes, room[:8], room)
    with pytest.raises(ValueError, match="starts: at least 9"):
        kernels.group_rows(codes, room.copy(), np.zeros(9, np.int32))
    with pytest.raises(ValueError, match="numbers: at least 9 items of 4 bytes"):
        kernels.number_rows(codes, room)
    with pytest.raises((ValueError, BufferError)):
        kernels.group_rows(codes[::2], room, room.copy())
    assert kernels.group_rows(codes[:0], room[:0], room[:0]) == 0
