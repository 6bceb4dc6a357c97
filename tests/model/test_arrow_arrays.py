"""Arrays and scalars that are built without pandas equal those of `pa.array` and `pa.scalar`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.model import arrow_arrays
from nyala.model.arrow_arrays import arrow_array, arrow_scalar, fill_nulls, numpy_array

TYPES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64()),
    *(pa.bool_(), pa.string(), pa.binary(), pa.large_string(), pa.date32(), pa.decimal128(9, 2), pa.timestamp("us")),
)
DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool", ">i4")
ITEMS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-5, 5), st.floats(), st.text(), st.binary()
)


@pytest.fixture(autouse=True)
def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have imported pandas, which turns the conversion of lists off."""
    monkeypatch.setattr(arrow_arrays, "sys", type("Sys", (), {"modules": {}}))


def _outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        return type(error), str(error)


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert found == expected
        return
    assert found.type == expected.type
    # NaN is unequal to itself.
    assert repr(found.to_pylist() if isinstance(found, pa.Array) else found.as_py()) == repr(
        expected.to_pylist() if isinstance(expected, pa.Array) else expected.as_py()
    )
    if isinstance(found, pa.Array):
        found.validate(full=True)
        assert found.null_count == expected.null_count


@given(st.lists(ITEMS, max_size=6), st.one_of(st.none(), st.sampled_from(TYPES)))
def test_lists_become_the_arrays_of_arrow(values: list[Any], type_: pa.DataType | None) -> None:
    _same(_outcome(lambda: arrow_array(values, type_)), _outcome(lambda: pa.array(values, type_)))
    _same(_outcome(lambda: arrow_array(tuple(values), type_)), _outcome(lambda: pa.array(values, type_)))


@given(ITEMS, st.one_of(st.none(), st.sampled_from(TYPES)))
def test_values_become_the_scalars_of_arrow(value: Any, type_: pa.DataType | None) -> None:
    _same(_outcome(lambda: arrow_scalar(value, type_)), _outcome(lambda: pa.scalar(value, type_)))


@given(st.data(), st.sampled_from(DTYPES), st.integers(0, 40), st.integers(1, 3), st.booleans())
def test_numbers_become_the_arrays_of_arrow(data: Any, dtype: str, size: int, step: int, masked: bool) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    values = (rng.integers(0, 100, size * step)).astype(dtype)[::step]
    mask = rng.integers(0, 2, size).astype(bool) if masked else None
    type_ = data.draw(st.one_of(st.none(), st.sampled_from(TYPES[:9])))
    _same(_outcome(lambda: arrow_array(values, type_, mask=mask)), _outcome(lambda: pa.array(values, type_, mask=mask)))


@given(st.sampled_from(DTYPES[:-1]), st.integers(0, 40), st.integers(0, 12), st.booleans())
def test_arrays_become_those_of_numpy(dtype: str, size: int, start: int, has_nulls: bool) -> None:
    rng = np.random.default_rng(size)
    values, mask = rng.integers(0, 100, size).astype(dtype), rng.integers(0, 2, size).astype(bool)
    array = pa.array(values, mask=mask if has_nulls else None).slice(start)
    expected = array.to_numpy(zero_copy_only=False)
    found = numpy_array(array)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    filled, by_arrow = fill_nulls(array, values.dtype.type(1).item()), array.fill_null(values.dtype.type(1).item())
    assert filled.equals(by_arrow)


def test_an_array_of_numbers_is_not_copied() -> None:
    values = np.arange(5)
    assert arrow_array(values).buffers()[1].address == values.ctypes.data
    assert np.shares_memory(numpy_array(arrow_array(values)), values)


def test_other_forms_are_those_of_arrow() -> None:
    chunked = pa.chunked_array([[1, 2], [3]])
    assert numpy_array(chunked).tolist() == [1, 2, 3]
    assert numpy_array(pa.array(["a"])).tolist() == ["a"]
    assert arrow_array(pa.array([1])).to_pylist() == [1]
    masked = np.ma.MaskedArray([1, 2], [False, True])
    assert arrow_array(masked).to_pylist() == [1, None]


STATEMENTS = (
    "CREATE TABLE t (k INT PRIMARY KEY, g VARCHAR, v DOUBLE)",
    "CREATE TABLE d (g VARCHAR PRIMARY KEY, n VARCHAR)",
    "INSERT INTO t VALUES (1, 'a', 0.5), (2, 'b', 1.5), (3, 'a', NULL)",
    "INSERT INTO d VALUES ('a', 'x'), ('b', 'y')",
    "SELECT v FROM t WHERE k = 1",
    "SELECT g, sum(v), count(*) FROM t GROUP BY g ORDER BY g",
    "SELECT n, max(k) FROM t JOIN d ON t.g = d.g WHERE k < 3 GROUP BY n ORDER BY n LIMIT 5",
    "SELECT count(*), min(g) FROM t WHERE g LIKE '%a' OR v > 1",
    "UPDATE t SET v = v + 1 WHERE k = 2",
    "DELETE FROM t WHERE k = 3",
)


def test_statements_import_no_pandas(tmp_path: Path) -> None:
    program = f"""
import sys, nyala
for _ in range(2):
    with nyala.connect({str(tmp_path / "store")!r}) as connection:
        for statement in {STATEMENTS!r}:
            if _ and statement.startswith(("CREATE", "INSERT")):
                continue
            cursor = connection.execute(statement)
            if statement.startswith("SELECT"):
                cursor.fetchall()
            assert "pandas" not in sys.modules, statement
"""
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
