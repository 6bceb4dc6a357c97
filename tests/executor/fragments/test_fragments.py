"""Fragments: results of tablet servers equal local ones; malformed bytes are refused."""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import nyala
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.driver.stores import open_stores as stores
from nyala.errors import DataError, Error, NotSupportedError
from nyala.executor.fragments import groups
from nyala.executor.fragments.evaluate import evaluator
from nyala.executor.fragments.fragment import Fragment, Step
from nyala.model.store import ScanCounters, ScanToken
from nyala.model.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, STRING
from nyala.model.vectors.vector import Batch, Dict, Flat
from nyala.sql.expression_codec import expression_from_plain, expression_to_plain
from nyala.sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal
from nyala.storage.database import Database

pytestmark = pytest.mark.embedded_only("counts what an embedded store evaluates of a scan")

ROWS = 4000


class FragmentDatabase(Database):
    """An embedded store that runs fragments as a tablet server does: their bytes, over each token's batches."""

    evaluated = 0

    @property
    def runs_fragments(self) -> bool:
        return True

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        batches = super().scan(token, counters)
        if not token.spec.fragment:
            return batches
        FragmentDatabase.evaluated += 1
        operator = evaluator(token.spec.fragment, len(token.spec.columns))
        # Two threads share a tablet: each reads every other batch.
        rows = [batch.slice(start, start + 100) for batch in batches for start in range(0, batch.length, 100)]
        sources = [operator(iter(rows[::2])), operator(iter(rows[1::2]))]
        return (Batch(part.columns(), part.length) for source in sources for part in source)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[nyala.Connection, nyala.Connection]]:
    """The same rows in a store that runs fragments, and in one that does not."""
    patch = pytest.MonkeyPatch()
    plain = nyala.connect(":memory:", threads=2)
    patch.setattr(stores, "Database", FragmentDatabase)
    remote = nyala.connect(":memory:", threads=2)
    patch.undo()
    chosen = random.Random(3)
    rows = [
        (
            number,
            chosen.choice([None, *"abc"]),
            chosen.choice([None, chosen.randrange(-50, 50)]),
            chosen.random(),
            Decimal(f"{chosen.randrange(10**6)}.{chosen.randrange(100):02}"),
            chosen.choice([None, date(2020, 1, 1), date(2021, 5, 6)]),
        )
        for number in range(ROWS)
    ]
    for connection in (plain, remote):
        connection.execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING, n INT, f DOUBLE, m DECIMAL(30,2), d DATE) "
            "DISTRIBUTE BY HASH (id) INTO 3 BUCKETS"
        )
        # Plain parameters are written in batches; with a CAST, each row would be a statement: 35 s for these.
        connection.cursor().executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    yield plain, remote
    plain.close()
    remote.close()


QUERIES = [
    "SELECT count(*) FROM t",
    "SELECT s, count(*), count(n), sum(n), min(n), max(s) FROM t GROUP BY s",
    "SELECT s, n, sum(m), avg(m), min(d), max(f) FROM t GROUP BY s, n",
    "SELECT id, count(*) FROM t GROUP BY id ORDER BY id LIMIT 5",
    "SELECT sum(n), avg(f) FROM t WHERE s LIKE '%b%' OR n % 7 = 3",
    "SELECT s || '-' || CAST(n AS STRING) AS k, count(*) FROM t WHERE n + 1 > 3 GROUP BY k",
    "SELECT count(*) FILTER (WHERE n > 0), sum(CASE WHEN s IN ('a', 'c') THEN n ELSE 0 END) FROM t",
    "SELECT stddev_samp(n), approx_count_distinct(id), count(*) FROM t WHERE id > 100",
    "SELECT sum(n) FROM t WHERE id < 0",
    "SELECT s, sum(n) FROM t WHERE id < 0 GROUP BY s",
    "SELECT id FROM t WHERE s LIKE '%a' AND n * 2 > 80 ORDER BY id",
    "SELECT count(DISTINCT n), string_agg(s, ',' ORDER BY id) FROM t WHERE n % 5 = 0",
    "SELECT s, sum(n) FROM t GROUP BY ROLLUP (s)",
    "SELECT sum(x.n * 100000000000000000000) FROM t x WHERE x.n % 2 = 1",
    "SELECT id, sum(n) FROM t GROUP BY id HAVING sum(n) > 45",
    "SELECT id, n, count(*) FROM t GROUP BY n, id HAVING count(*) > 1 OR max(f) < 0.01",
    "SELECT i, s FROM (SELECT id % 1000 AS m, id AS i, avg(n) AS s FROM t GROUP BY m, i) WHERE s > 40 AND m < 500",
    "SELECT id FROM t GROUP BY id HAVING sum(n) > 1000",
    "SELECT s, sum(n) FROM t GROUP BY s HAVING sum(n) > 0",
    "SELECT id, sum(n) FROM t GROUP BY id HAVING stddev_samp(f) IS NULL AND min(s) = 'a' AND 7 < sum(n)",
    "SELECT y.s, count(*) FROM t x JOIN t y ON x.id = y.n WHERE x.s <> 'a' GROUP BY y.s",
]


def answer(connection: nyala.Connection, query: str) -> list[Any]:
    rows = connection.execute(query).fetchall()
    shown = [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]
    return shown if "ORDER BY id" in query else sorted(shown, key=repr)


@pytest.mark.parametrize("query", QUERIES)
def test_beside_the_rows_as_here(both: tuple[nyala.Connection, nyala.Connection], query: str) -> None:
    plain, remote = both
    assert answer(remote, query) == answer(plain, query)


def test_aggregates_and_conditions_travel(both: tuple[nyala.Connection, nyala.Connection]) -> None:
    for query, runs in (("SELECT sum(n) FROM t", True), ("SELECT id FROM t WHERE n % 3 = 1", True), ("TABLE t", False)):
        before = FragmentDatabase.evaluated
        answer(both[1], query)
        assert (FragmentDatabase.evaluated > before) is runs, query


def test_many_groups_are_given_out_before_the_end(both: tuple[nyala.Connection, nyala.Connection]) -> None:
    plain, remote = both
    query = "SELECT x.id * 100 + y.id AS k, sum(x.n) FROM t x JOIN t y ON y.id < 60 GROUP BY k"
    assert answer(remote, query) == answer(plain, query)


def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of rows of each batch that a fragment produces from here on."""
    rows: list[int] = []
    scan = FragmentDatabase.scan

    def watched(self: FragmentDatabase, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        for batch in scan(self, token, counters):
            rows.append(batch.length)
            yield batch

    monkeypatch.setattr(FragmentDatabase, "scan", watched)
    return rows


HAVING = "SELECT id, sum(n) FROM t GROUP BY id HAVING sum(n) = 49"


def test_groups_that_do_not_pass_stay_where_they_are(
    both: tuple[nyala.Connection, nyala.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sent(monkeypatch)
    found = answer(both[1], HAVING)
    assert found and sum(rows) == len(found)
    shown = str(both[1].execute("EXPLAIN ANALYZE " + HAVING).fetchall())
    assert "all steps up to partial groups and a condition on groups" in shown


def test_too_many_groups_are_sent_unasked(
    both: tuple[nyala.Connection, nyala.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sent(monkeypatch)
    monkeypatch.setattr(groups, "GATHERED_GROUPS", 1000)
    assert answer(both[1], HAVING) == answer(both[0], HAVING)
    assert sum(rows) > 1000


# ---- what travels ----------------------------------------------------------------------------------------------------

A, B = Column(BIGINT, True, 1, "a"), Column(STRING, False, 2, "b")


@pytest.mark.parametrize(
    "expr",
    [
        Literal(DECIMAL(38, 0), False, 10**37),
        Literal(DOUBLE, False, float("inf")),
        Call(BOOLEAN, True, "gt", (A, Literal(BIGINT, False, -(2**63)))),
        Case(STRING, True, ((Call(BOOLEAN, True, "is_null", (A,)), B),), Literal(STRING, True, None)),
        InValues(BOOLEAN, True, A, (Literal(BIGINT, False, 1), Literal(BIGINT, False, 2))),
        Cast(STRING, True, A, True),
    ],
)
def test_expressions_come_back_as_they_were(expr: Expr) -> None:
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(expression_to_plain(expr)))
    assert expression_from_plain(travelled) == expr


plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["Call", "Column", "Literal"]),
    lambda inner: st.lists(inner, max_size=5),
)


@given(plain_data)
def test_nonsense_is_refused(plain: Any) -> None:
    with pytest.raises(DataError):
        expression_from_plain(plain)


def test_what_is_too_deep_is_refused() -> None:
    deep: Expr = A
    for _ in range(100):
        deep = Cast(BIGINT, True, deep)
    plain = expression_to_plain(deep)
    assert expression_from_plain(plain) == deep
    with pytest.raises(NotSupportedError, match="100 deep cannot travel"):
        expression_to_plain(Cast(BIGINT, True, deep))
    kind, type_, nullable, _, safe = plain
    with pytest.raises(DataError, match="nested more than 100 deep"):
        expression_from_plain([kind, type_, nullable, plain, safe])


@given(st.binary(max_size=60))
def test_bytes_from_anywhere_are_refused(data: bytes) -> None:
    with pytest.raises(Error):
        evaluator(data, 1)


def test_a_fragment_for_another_scan_is_refused() -> None:
    with pytest.raises(DataError, match="over a scan of 3"):
        evaluator(Fragment((A,), 1).to_bytes(), 3)


def test_a_fragment_that_reads_a_column_that_is_not_there_is_refused() -> None:
    stranger = Column(BIGINT, True, 77, "stranger")
    for fragment in (
        Fragment((A,), 1, residual=Call(BOOLEAN, True, "is_null", (stranger,))),
        Fragment((A,), 1, steps=(Step(True, (Literal(BOOLEAN, False, True),), (stranger,)),)),
    ):
        with pytest.raises(DataError, match="does not exist"):
            evaluator(fragment.to_bytes(), 1)


def test_a_fragment_that_is_kept_may_run_in_many_threads_at_once() -> None:
    """All scans that send the same bytes share the compiled fragment."""
    doubled = Call(BIGINT, True, "mul", (A, Literal(BIGINT, False, 2)))
    data = Fragment(
        (A,),
        1,
        residual=Call(BOOLEAN, True, "gt", (A, Literal(BIGINT, False, 10))),
        steps=(Step(False, (doubled,), (Column(BIGINT, True, 9, "doubled"),)),),
    ).to_bytes()

    def total(thread: int) -> int:
        numbers = Flat(BIGINT, np.arange(thread, thread + 1000))
        batches = evaluator(data, 1)(Batch([numbers], 1000) for _ in range(20))
        return sum(int(batch.columns()[0].values().sum()) for batch in batches)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(total, range(64))) == [
            40 * sum(number for number in range(thread, thread + 1000) if number > 10) for thread in range(64)
        ]


def test_a_fragment_that_is_kept_keeps_no_dictionaries_and_mistakes_none_for_another() -> None:
    text = Column(STRING, True, 5, "text")
    data = Fragment((text,), 1, residual=Call(BOOLEAN, True, "like", (text, Literal(STRING, False, "a%")))).to_bytes()
    seen: list[weakref.ref[pa.Array]] = []
    for number in range(200):
        words = [f"{'ab'[(number + place) % 2]}{place}" for place in range(10)]
        vector = Dict(STRING, np.arange(10, dtype=np.uint8), pa.array(words))
        seen.append(weakref.ref(vector.dictionary))
        (kept,) = evaluator(data, 1)(iter([Batch([vector], 10)]))
        assert kept.columns()[0].to_arrow().to_pylist() == [word for word in words if word.startswith("a")]
        del vector, kept
    assert not any(dictionary() for dictionary in seen[:-1])


def test_explain_analyze_tells_what_is_done_beside_the_rows(both: tuple[nyala.Connection, nyala.Connection]) -> None:
    plain, remote = both
    for query, told in (
        ("SELECT sum(n) FROM t WHERE n % 3 = 1", "executed by the tablet servers: all steps up to partial groups"),
        ("SELECT id FROM t WHERE n % 3 = 1", "executed by the tablet servers: the condition"),
    ):
        assert told in str(remote.execute(f"EXPLAIN ANALYZE {query}").fetchall())
        assert told not in str(plain.execute(f"EXPLAIN ANALYZE {query}").fetchall())
    found = [line for (line,) in remote.execute("EXPLAIN ANALYZE SELECT n, sum(id) FROM t GROUP BY n").fetchall()]
    (scan,) = (line for line in found if "TableScan" in line)
    assert f"({ROWS:,} rows" in scan, "those that were grouped, not the groups that came"
