"""Small scans of a statement are prefetched in one request at its start; the rows are the same as without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from executor_support import MemoryStore
from nyala.errors import DataError
from nyala.executor import ExecutionContext
from nyala.executor.execute import execute
from nyala.executor.fragments.evaluate import evaluator
from nyala.executor.scans import prefetch, scan
from nyala.executor.scans.prefetch import AT_ONCE
from nyala.model.schema import Table
from nyala.model.store import ScanCounters, ScanSpec, ScanToken
from nyala.model.vectors.vector import Batch
from nyala.planner import plan_query
from nyala.planner.query_plan import Plan
from nyala.sql import bind, parse


class Asked:
    """The batches of a prefetched token."""

    def __init__(self, store: ServedStore, token: ScanToken, counters: ScanCounters):
        self._store = store
        self._batches = store.scan(token, counters)
        store.open.add(self)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        self.close()
        return next(self._batches)

    def close(self) -> None:
        """Nothing waits for a reader any more."""
        self._store.open.discard(self)


class ServedStore(MemoryStore):
    """As if servers scanned, all of whose tokens are small."""

    runs_fragments = True

    def __init__(self, tablets: int = 2) -> None:
        super().__init__(batch_rows=100, tablets=tablets)
        self.asked: list[list[str]] = []
        """The tables of the tokens that were requested together, call by call."""
        self.filtered: list[str] = []
        """The tables of tokens with predicates."""
        self.open: set[Asked] = set()
        """Requests that were neither read nor cancelled."""
        self.errors: dict[str, Exception] = {}
        self.before: dict[str, Callable[[], object]] = {}
        """Function that must return before a table's rows arrive."""
        self.tells_rows = True

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        tokens = super().scan_tokens(table, spec)
        return [replace(t, is_small=True, rows=t.rows if self.tells_rows else 0) for t in tokens]

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> list[Asked]:
        self.asked.append([token.table.name for token in tokens])
        self.filtered += [token.table.name for token in tokens if token.spec.predicates]
        return [Asked(self, token, mine) for token, mine in zip(tokens, counters, strict=True)]

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        if token.table.name in self.errors:
            raise self.errors[token.table.name]
        self.before.get(token.table.name, bool)()
        batches = super().scan(token, counters)
        if token.spec.fragment:
            batches = evaluator(token.spec.fragment, len(token.spec.columns))(batches)
        yield from batches


NUMBERS = np.arange(200_000)
ALL = "SELECT k, xv, yv FROM f JOIN x ON a = xk JOIN y ON xv = yk WHERE yw = 'w1'"
"""A filter of y reaches x, and one of x reaches f."""


def filled(store: ServedStore) -> ServedStore:
    numbers = NUMBERS
    store.add("f", pa.table({"k": numbers, "a": numbers % 500}), ["k"], "k")
    store.add("x", pa.table({"xk": numbers[:500], "xv": numbers[:500] % 40}), ["xk"], "xk")
    names = pa.array([f"w{number % 3}" for number in range(40)])
    store.add("y", pa.table({"yk": numbers[:40], "yv": numbers[:40] % 7, "yw": names}), ["yk"])
    return store


@pytest.fixture
def store() -> ServedStore:
    return filled(ServedStore())


def planned(store: MemoryStore, text: str) -> Plan:
    return plan_query(bind(parse(text)[0], store).query, store)  # type: ignore[union-attr]


def rows_of(store: ServedStore, text: str, **options: Any) -> list[tuple[Any, ...]]:
    context = ExecutionContext(store, **{"threads": 2, **options})
    found = [
        row
        for batch in execute(planned(store, text).root, context)
        for row in zip(*(column.to_arrow().to_pylist() for column in batch.columns()), strict=True)
    ]
    assert not store.open, "what was asked for was read, or given up"
    return sorted(found, key=repr)


def embedded_rows(store: ServedStore, text: str) -> list[tuple[Any, ...]]:
    store.runs_fragments = False
    try:
        return rows_of(store, text)
    finally:
        store.runs_fragments = True
        store.asked.clear()
        store.filtered.clear()


def early(store: ServedStore, text: str) -> dict[str, bool]:
    """The tables whose scans may be early, and whether a filter reaches them."""
    return {node.table.name: is_filtered for node, is_filtered in prefetch.small_scans(planned(store, text).root)}


@pytest.mark.parametrize("threads", [1, 2])
def test_small_scans_are_asked_for_together_and_large_ones_wait_for_their_filter(
    store: ServedStore, threads: int
) -> None:
    expected = embedded_rows(store, ALL)
    assert early(store, ALL) == {"y": False, "x": True}
    assert rows_of(store, ALL, threads=threads) == expected
    assert sorted(store.asked[0]) == ["x", "x", "y"]
    assert {name for tables in store.asked[1:] for name in tables} == {"f"}
    assert set(store.filtered) == {"y", "f"}, "x did not wait for a filter, f did"


def test_a_table_that_is_not_small_waits_for_its_filter(store: ServedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = embedded_rows(store, ALL)
    monkeypatch.setattr(scan, "SMALL_TABLE_ROWS", 499)
    assert rows_of(store, ALL) == expected
    assert "x" in store.filtered


def test_a_table_of_which_nobody_knows_how_large_it_is_waits_for_its_filter(store: ServedStore) -> None:
    expected = embedded_rows(store, ALL)
    store.tells_rows = False
    assert rows_of(store, ALL) == expected
    assert "x" in store.filtered


def test_wide_rows_are_not_asked_for_early(store: ServedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "MOST_BYTES", 500 * 16 - 1)
    assert early(store, ALL) == {"y": False}


def test_one_scan_has_its_turn(store: ServedStore) -> None:
    text = "SELECT xk FROM x WHERE xv = 3"
    expected = embedded_rows(store, text)
    assert rows_of(store, text) == expected
    assert store.asked == [["x", "x"]]


def test_a_statement_asks_for_so_many_tokens_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(ServedStore(tablets=AT_ONCE + 4))
    expected = embedded_rows(store, ALL)
    monkeypatch.setattr(scan, "MOST_TOKENS", AT_ONCE + 4)
    assert rows_of(store, ALL) == expected
    assert store.asked[0] == ["y"], "x would have been too many"
    store.asked.clear()
    monkeypatch.setattr(scan, "MOST_TOKENS", AT_ONCE + 5)
    assert rows_of(store, ALL) == expected
    assert sorted(store.asked[0]) == ["x"] * AT_ONCE + ["y"]
    assert store.asked[1] == ["x"] * 4, "the others of the scan, when their turn comes"


def test_a_statement_asks_for_so_many_scans_at_most(store: ServedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"SELECT count(*) FROM ({ALL}) s JOIN x z ON z.xk = yv JOIN x q ON q.xk = yv"
    expected = embedded_rows(store, text)
    monkeypatch.setattr(scan, "MOST_SCANS", 2)
    assert rows_of(store, text) == expected
    assert len(store.asked[0]) <= 4


def test_what_nobody_wants_is_given_up(store: ServedStore) -> None:
    text = f"{ALL} AND yv = 6 AND yk < 2"
    assert embedded_rows(store, text) == []
    store.errors["x"] = DataError("nobody reads it")
    assert rows_of(store, text) == []
    assert "x" in store.asked[0]


def test_an_error_is_raised_where_the_rows_are_wanted(store: ServedStore) -> None:
    store.errors = {"x": DataError("x"), "y": DataError("y")}
    for _ in range(5):
        with pytest.raises(DataError, match="y"):
            rows_of(store, ALL)
        assert not store.open


def test_a_reader_who_leaves_gives_up_what_was_asked_for(store: ServedStore) -> None:
    batches = execute(planned(store, ALL).root, ExecutionContext(store, threads=2))
    assert next(batches).length
    batches.close()  # type: ignore[attr-defined]
    assert not store.open


QUERIES = [
    ALL,
    "WITH s AS (SELECT xk, yv FROM x JOIN y ON xv = yk) "
    "SELECT s.yv, t.yv FROM s JOIN s t ON s.xk = t.xk + 40 JOIN y ON s.yv = yk",
    "SELECT xk, n FROM x JOIN (SELECT yv, count(*) n FROM y GROUP BY yv) g ON xv = g.yv",
    "SELECT xk, yw FROM x LEFT JOIN y ON xv = yk AND yv = 1",
    "SELECT xk FROM x WHERE xv IN (SELECT yk FROM y WHERE yw = 'w1') UNION ALL SELECT yk FROM y ORDER BY 1 LIMIT 20",
    "SELECT xk, yk FROM x JOIN y ON xv = yk ORDER BY xk LIMIT 7",
    "WITH RECURSIVE r AS (SELECT yk AS n FROM y WHERE yk < 3 UNION SELECT yk + 1 FROM r JOIN y ON n = yk) "
    "SELECT xk, n FROM x JOIN r ON xv = n",
]


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"memory_limit": 60_000}, {"collect": True}], ids=str)
@pytest.mark.parametrize("text", QUERIES)
def test_rows_are_the_same(store: ServedStore, text: str, options: dict[str, Any]) -> None:
    expected = embedded_rows(store, text)
    for _ in range(2):
        assert rows_of(store, text, **options) == expected


def test_no_scan_that_its_servers_aggregate_or_that_runs_in_rounds_is_early(store: ServedStore) -> None:
    assert set(early(store, QUERIES[2])) == {"x"}
    assert set(early(store, QUERIES[6])) == {"x"}
