"""The merge join compared with the hash join on tables partitioned alike: the same rows, for any distribution."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.errors import CardinalityViolation, OperationalError, ProgrammingError
from nyala.executor import ExecutionContext
from nyala.executor.joins import merge_join
from nyala.executor.statements.statements import run
from nyala.planner import PlannerOptions, explain, plan_query
from nyala.planner.algebra.physical import MergeJoin, nodes
from nyala.sql import bind, bound, parse
from nyala.storage.database import Database

KINDS = {
    "inner": "SELECT l.{a}, l.p, r.q FROM l JOIN r ON {on}",
    "residual": "SELECT l.{a}, l.p, r.q FROM l JOIN r ON {on} AND l.p < r.q",
    "left": "SELECT l.{a}, l.p, r.q FROM l LEFT JOIN r ON {on}",
    "left residual": "SELECT l.{a}, l.p, r.{a}, r.q FROM l LEFT JOIN r ON {on} AND l.p + r.q > 5",
    "right": "SELECT l.p, r.q, r.{a} FROM l RIGHT JOIN r ON {on}",
    "full": "SELECT l.{a}, l.p, r.q FROM l FULL JOIN r ON {on} AND l.p <> r.q",
    "semi": "SELECT l.{a}, l.p FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {on} AND r.q > l.p)",
    "anti": "SELECT l.{a}, l.p FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {on})",
    "anti residual": "SELECT l.{a} FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {on} AND r.q > l.p)",
    "filtered": "SELECT l.p, x.q FROM l JOIN (SELECT {a}, {b}, q FROM r WHERE q % 3 = 1) x ON {xon} WHERE l.p > 2",
    "grouped": "SELECT l.{a}, count(*), sum(r.q) FROM l JOIN r ON {on} GROUP BY l.{a}",
    "three": "SELECT l.p, r.q, m.p FROM l JOIN r ON {on} JOIN l m ON {mon}",
}
SHAPES = {
    # keys of both tables, the columns of the join, partitioning
    "one column": ("a BIGINT, n INT", "a", "HASH (a) INTO 3 BUCKETS"),
    "prefix, two columns": ("a BIGINT, b INT, n INT", "a, b", "HASH (a) INTO 2 BUCKETS"),
    "texts": ("a STRING, b STRING, n INT", "a, b", "HASH (b) INTO 3 BUCKETS"),
    "not cut": ("a DATE, n INT", "a", ""),
    "ranges": ("a BIGINT, n INT", "a", "RANGE (a) (PARTITION VALUES < 5, PARTITION 5 <= VALUES)"),
}


def execute(store: Database, text: str, options: PlannerOptions | None = None, **given: Any) -> list[tuple[Any, ...]]:
    statement = bind(parse(text)[0], store)
    plan = plan_query(statement.query, store, options) if isinstance(statement, bound.WITH_QUERY) else None
    found: list[tuple[Any, ...]] = []
    for batch in run(statement, ExecutionContext(store, **given), plan).batches:
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


def value(type_: str, number: int) -> str:
    if type_ == "STRING":
        return f"'{chr(97 + number % 5)}{'x' * (number % 3)}{number}'"
    return f"DATE '2020-01-{1 + number % 28:02}'" if type_ == "DATE" else str(number)


def create(store: Database, shape: str) -> None:
    columns, _, cut = SHAPES[shape]
    names = [column.split()[0] for column in columns.split(", ")]
    for table, payload in (("l", "p"), ("r", "q")):
        declared = ", ".join(f"{column} NOT NULL" for column in columns.split(", "))
        store_text = f"CREATE TABLE {table} ({declared}, {payload} BIGINT, PRIMARY KEY ({', '.join(names)}))"
        execute(store, f"{store_text} {'DISTRIBUTE BY ' + cut if cut else ''}")


def fill(store: Database, shape: str, rng: random.Random, rows: int, spread: int) -> None:
    types = [column.split()[1] for column in SHAPES[shape][0].split(", ")]
    for table, payload in (("l", "p"), ("r", "q")):
        for _ in range(rng.randrange(4)):
            numbers = [[rng.randrange(spread) for _ in types] for _ in range(rng.randrange(1, rows))]
            cells = ", ".join(
                f"({', '.join(value(t, n) for t, n in zip(types, row))}, {rng.randrange(9)})" for row in numbers
            )
            execute(store, f"UPSERT INTO {table} VALUES {cells}")
            act = rng.randrange(5)
            if act == 0:
                execute(store, f"COMPACT TABLE {table}")
            elif act == 1:
                execute(store, f"UPDATE {table} SET {payload} = {payload} + 1 WHERE n % 3 = 1")
            elif act == 2:
                execute(store, f"DELETE FROM {table} WHERE n % 4 = {rng.randrange(4)}")


def queries(shape: str) -> Iterator[tuple[str, str]]:
    joined = SHAPES[shape][1].split(", ")
    conditions = {
        side: " AND ".join(f"l.{c} = {side}.{c}" if side != "m" else f"r.{c} = m.{c}" for c in joined)
        for side in ("r", "x", "m")
    }
    fields = {"on": conditions["r"], "xon": conditions["x"], "mon": conditions["m"], "a": joined[0], "b": joined[-1]}
    for kind, text in KINDS.items():
        text = text.replace("SELECT {a}, {b}", "SELECT {a}" if len(joined) == 1 else "SELECT {a}, {b}")
        yield kind, text.format(**fields)


@pytest.mark.slow
@settings(max_examples=examples(63), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=st.sampled_from(sorted(SHAPES)),
    seed=st.integers(0, 2**32),
    window=st.sampled_from([1, 7, 1 << 16]),
    threads=st.sampled_from([1, 2]),
)
def test_a_merge_join_gives_what_a_hash_join_gives(shape: str, seed: int, window: int, threads: int) -> None:
    rng = random.Random(seed)
    with Database(background=False) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_join, "BLOCK_ROWS", window)
        create(store, shape)
        fill(store, shape, rng, rows=rng.choice([3, 60]), spread=rng.choice([2, 5, 40]))
        for kind, text in queries(shape):
            options = PlannerOptions(merge_joins="always", check=True)
            plan = plan_query(bind(parse(text)[0], store).query, store, options)  # type: ignore[union-attr]
            assert any(isinstance(node, MergeJoin) for node in nodes(plan.root)), explain(plan)
            found = execute(store, text, options, threads=threads)
            wanted = execute(store, text, PlannerOptions(merge_joins="never"), threads=threads)
            assert Counter(found) == Counter(wanted), (kind, explain(plan))


@pytest.fixture
def store() -> Iterator[Database]:
    with Database(background=False) as store:
        create(store, "one column")
        rows = {"a": pa.array(range(1000), pa.int64()), "n": pa.array([0] * 1000, pa.int32())}
        for table, payload in (("l", "p"), ("r", "q")):
            with store.bulk_loader(store.table(table)) as loader:
                loader.append(pa.table({**rows, payload: pa.array(range(1000), pa.int64())}))
                loader.finish()
        yield store


ALWAYS = PlannerOptions(merge_joins="always")


def test_rows_come_out_in_key_order_within_each_tablet(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_join, "BLOCK_ROWS", 50)
    found = [row[0] for row in execute(store, "SELECT l.a FROM l JOIN r ON l.a = r.a", ALWAYS, threads=1)]
    assert sorted(found) == list(range(1000))
    assert sum(b < a for a, b in itertools.pairwise(found)) == 2, "three tablets, ascending"


def test_columns_stay_unread_until_they_are_wanted(store: Database) -> None:
    context = ExecutionContext(store, collect=True)
    text = "SELECT count(*) FROM l JOIN r ON l.a = r.a AND r.q >= 0"
    statement = bind(parse(text)[0], store)
    plan = plan_query(statement.query, store, ALWAYS)  # type: ignore[union-attr]
    assert [row.column(0)[0].as_py() for row in run(statement, context, plan).batches] == [1000]


def test_a_side_that_has_ended_stops_the_other(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_join, "BLOCK_ROWS", 10)
    execute(store, "DELETE FROM l WHERE a > 3")
    text = "SELECT l.a FROM l JOIN r ON l.a = r.a"
    assert sorted(execute(store, text, ALWAYS)) == [(0,), (1,), (2,), (3,)]


def test_a_scalar_subquery_may_not_give_two_rows(store: Database) -> None:
    execute(store, "INSERT INTO r VALUES (7, 1, 0)")
    with pytest.raises(CardinalityViolation, match="more than one row"):
        execute(store, "SELECT (SELECT q FROM r WHERE r.a = l.a) FROM l", ALWAYS)


@pytest.mark.parametrize(
    ("key", "cut"),
    [
        ("a BIGINT, n INT", "HASH (a) INTO 4 BUCKETS"),  # other buckets
        ("a INT, n INT", "HASH (a) INTO 3 BUCKETS"),  # another type
        ("n INT, a BIGINT", "HASH (a) INTO 3 BUCKETS"),  # not the first of the key
        ("a BIGINT, n INT", "HASH (n) INTO 3 BUCKETS"),
        ("a BIGINT, n INT", "HASH (a) INTO 3 BUCKETS, RANGE (a) (PARTITION VALUES < 5, PARTITION 5 <= VALUES)"),
    ],
)
def test_tables_that_are_cut_otherwise_are_not_merged(store: Database, key: str, cut: str) -> None:
    declared = ", ".join(f"{column} NOT NULL" for column in key.split(", "))
    names = ", ".join(column.split()[0] for column in key.split(", "))
    execute(store, f"CREATE TABLE o ({declared}, PRIMARY KEY ({names})) DISTRIBUTE BY {cut}")
    statement = bind(parse("SELECT l.p FROM l JOIN o ON l.a = o.a")[0], store)
    plan = plan_query(statement.query, store, ALWAYS)  # type: ignore[union-attr]
    assert not any(isinstance(node, MergeJoin) for node in nodes(plan.root))


def test_a_table_that_was_cut_anew_since_is_noticed() -> None:
    with Database(background=False) as store:
        create(store, "ranges")
        statement = bind(parse("SELECT l.p FROM l JOIN r ON l.a = r.a")[0], store)
        plan = plan_query(statement.query, store, ALWAYS)  # type: ignore[union-attr]
        execute(store, "ALTER TABLE r DROP RANGE PARTITION 5 <= VALUES")
        with pytest.raises(OperationalError, match="partitions of table r were altered"):
            list(run(statement, ExecutionContext(store), plan).batches)


def test_small_sides_are_hashed_and_explain_shows_what_is_chosen(store: Database) -> None:
    text = "SELECT l.p FROM l JOIN r ON l.a = r.a AND l.p < r.q"
    query = bind(parse(text)[0], store).query  # type: ignore[union-attr]
    assert "HashJoin" in explain(plan_query(query, store))
    shown = explain(plan_query(query, store, ALWAYS))
    assert "MergeJoin inner on l.a = r.a" in shown
    assert "· and p < q" in shown
    assert "· ordered by key" in shown
    with pytest.raises(ProgrammingError, match="auto, always or never"):
        plan_query(query, store, PlannerOptions(merge_joins="sometimes"))


def test_large_sides_are_merged_and_filtered_ones_are_not(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nyala.planner.physical.merge_joins.WORTH_MERGING", 500)
    for join, operator in (("FULL JOIN r ON l.a = r.a", "MergeJoin"), ("JOIN r ON l.a = r.a AND r.q < 9", "HashJoin")):
        text = f"SELECT l.p, r.q FROM l {join}"
        plan = plan_query(bind(parse(text)[0], store).query, store)  # type: ignore[union-attr]
        assert operator in explain(plan), explain(plan)
