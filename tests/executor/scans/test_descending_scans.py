"""ORDER BY primary key DESC LIMIT n reads the ends of the tablets, at any mixture of rows on disk and in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import nyala
import pyarrow as pa
import pytest
from nyala.cluster.wire.messages.plain import spec_from_plain, spec_to_plain
from nyala.model.store import ScanSpec
from nyala.storage.reading import tablet_scan

ROWS = 12_000
QUERIES: list[tuple[str, Callable[[int, str, int], bool]]] = [
    ("ORDER BY a DESC, b DESC", lambda a, b, v: True),
    ("WHERE v > 3 ORDER BY a DESC, b DESC", lambda a, b, v: v > 3),
    ("WHERE v % 5 = 4 ORDER BY a DESC, b DESC", lambda a, b, v: v % 5 == 4),
    ("WHERE a < 500 ORDER BY a DESC, b DESC", lambda a, b, v: a < 500),
    ("WHERE a = 3950 ORDER BY b DESC, v", lambda a, b, v: a == 3950),
    ("WHERE a > 99999 ORDER BY a DESC, b DESC", lambda a, b, v: False),
]


def _plan(store: Any, query: str) -> str:
    return "\n".join(row[0] for row in store.execute(f"EXPLAIN ANALYZE {query}").fetchall())


@pytest.mark.parametrize("buckets", [1, 3])
def test_the_last_rows_come_first(buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tablet_scan, "_FIRST_BACKWARD", 64)
    rng = random.Random(buckets)
    rows = {(i // 3, f"x{i % 3}"): i % 7 for i in range(ROWS)}
    with nyala.connect(":memory:", threads=2) as store:
        partitions = f" DISTRIBUTE BY HASH (a) INTO {buckets} BUCKETS" if buckets > 1 else ""
        store.execute(f"CREATE TABLE t (a INT, b STRING, v INT, PRIMARY KEY (a, b)){partitions}")
        numbers = np.arange(ROWS, dtype=np.int32)
        store.load("t", pa.table({"a": numbers // 3, "b": [f"x{i % 3}" for i in range(ROWS)], "v": numbers % 7}))
        for i in range(100):
            key = rng.randint(3900, 4010), f"x{rng.randint(0, 4)}"
            if rng.random() < 0.5 and key in rows:
                store.execute("DELETE FROM t WHERE a = ? AND b = ?", key)
                del rows[key]
            else:
                store.execute("UPSERT INTO t VALUES (?, ?, ?)", (*key, i))
                rows[key] = i
        for _ in ("rows in memory and deltas", "compacted"):
            for query, passes in QUERIES:
                expected = sorted([(*key, v) for key, v in rows.items() if passes(*key, v)], reverse=True)
                for limit, offset in ((1, 0), (7, 20), (150, 0)):
                    text = f"SELECT a, b, v FROM t {query} LIMIT {limit} OFFSET {offset}"
                    assert store.execute(text).fetchall() == expected[offset : offset + limit], text
            store.execute("COMPACT TABLE t")


def test_few_rows_are_read() -> None:
    with nyala.connect(":memory:") as store:
        store.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        store.load("t", pa.table({"k": np.arange(300_000), "v": np.arange(300_000)}))
        text = _plan(store, "SELECT v FROM t ORDER BY k DESC LIMIT 3")
        assert "ordered by key descending, limit 3" in text and " 2,048 rows considered" in text, text
        for order in ("k DESC, v", "v DESC, k DESC"):
            assert ("ordered by key" in _plan(store, f"SELECT v FROM t ORDER BY {order} LIMIT 3")) == (order[0] == "k")


def test_mixed_directions_of_key_columns_are_sorted() -> None:
    with nyala.connect(":memory:") as store:
        store.execute("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))")
        store.load("t", pa.table({"a": pa.array(np.arange(5000) // 50, pa.int32()), "b": np.arange(5000) % 50}))
        query = "SELECT a, b FROM t ORDER BY a DESC, b LIMIT 2"
        assert "ordered by key" not in _plan(store, query)
        assert store.execute(query).fetchall() == [(99, 0), (99, 1)]
        assert store.execute("SELECT a, b FROM t WHERE a = 7 ORDER BY a, b DESC LIMIT 1").fetchall() == [(7, 49)]


def test_a_server_that_does_not_know_descending_scans_refuses_them() -> None:
    spec = ScanSpec(("a",), ordered=True, limit=3, descending=True)
    plain = spec_to_plain(spec)
    assert "columns" not in plain
    assert spec_from_plain(plain) == spec
    assert spec_from_plain(spec_to_plain(ScanSpec(("a",)))) == ScanSpec(("a",))
