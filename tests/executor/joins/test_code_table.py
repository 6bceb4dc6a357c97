"""Rows that are looked up by their codes have the partners that coder and index find one by one."""

from __future__ import annotations

import numpy as np
import nyala
import pyarrow as pa
import pytest
from nyala.executor.joins import code_table
from nyala.executor.joins.code_table import CodeTable
from nyala.executor.joins.join_index import JoinIndex
from nyala.executor.joins.join_keys import KeyCoder
from nyala.model.types import BIGINT, INT
from nyala.model.vectors.vector import Flat, Narrow


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("base", [0, -100, 2**31 - 300, -(2**63), 2**63 - 65_536])
def test_rows_are_those_of_the_index(dtype: type, base: int) -> None:
    rng = np.random.default_rng(base % 1000)
    limits = np.iinfo(np.int64)
    near = np.clip(base + rng.integers(-500, 70_000, 900).astype(object), limits.min, limits.max).astype(np.int64)
    build = np.unique(np.append(near, rng.integers(limits.min, limits.max, 9)))
    coder, codes = KeyCoder.learn([Flat(BIGINT, rng.permutation(build))])
    index = JoinIndex(codes, coder.size)
    table = CodeTable(coder, index)
    for length in (40_000, 100_000, 100_000):
        probe = rng.integers(0, np.iinfo(dtype).max, length, dtype, endpoint=True)
        key = Narrow(BIGINT, probe, base, None if length == 40_000 else rng.random(length) < 0.9)
        found = table.rows(key)
        if found is not None:
            assert np.array_equal(found, index.find(coder.encode([key])))
    assert table.looked_up[0] >= 100_000


def test_few_rows_and_other_forms_are_looked_up_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    coder, codes = KeyCoder.learn([Flat(INT, np.arange(9, dtype=np.int32))])
    table = CodeTable(coder, JoinIndex(codes, coder.size))
    assert table.rows(Narrow(INT, np.zeros(511, np.uint8), 0)) is None
    assert table.rows(Narrow(INT, np.zeros(1, np.uint8), 0)) is not None
    assert table.rows(Narrow(INT, np.zeros(10**6, np.uint32), 0)) is None
    assert table.rows(Flat(INT, np.zeros(10**6, np.int32))) is None
    monkeypatch.setattr(code_table, "_MOST_TABLES", 1)
    assert table.rows(Narrow(INT, np.zeros(10**6, np.uint8), 1)) is None
    assert table.looked_up == [1]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_statements_have_the_answers_of_duckdb(kind: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(5)
    length = 60_000
    facts = pa.table(
        {
            "id": np.arange(length),
            "k": pa.array(rng.integers(-3, 200, length), pa.int32(), mask=rng.random(length) < 0.1),
            "v": rng.integers(0, 50, length),
        }
    )
    names = pa.table({"n": pa.array(rng.permutation(np.arange(20, 230)), pa.int32()), "w": rng.random(210)})
    text = f"SELECT count(*), count(id), count(n), sum(v), round(sum(w), 6) FROM facts {kind} names ON k = n"
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE facts (id BIGINT PRIMARY KEY, k INT, v BIGINT)")
        connection.execute("CREATE TABLE names (n INT PRIMARY KEY, w DOUBLE)")
        connection.load("facts", facts)
        connection.load("names", names)
        found = connection.execute(text).fetchall()
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN ANALYZE {text}").fetchall())
    assert "probe rows looked up by their codes" in plan
    other = duckdb.connect()
    other.register("facts", facts)
    other.register("names", names)
    ((*counts, total),) = other.execute(text).fetchall()
    assert [int(value) for value in found[0][:-1]] == counts
    assert found[0][-1] == pytest.approx(total)
