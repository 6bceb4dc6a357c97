"""`nyala_catalog.partitions`: conditions that divide a table by tablets, and scans under them that read one tablet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import TypeMismatch

KEY = "a INT, b STRING, c DATE, v INT, PRIMARY KEY (a, b, c)"
ROWS = "n % 5 - 2, 'b' || n % 3, DATE '2024-01-01' + n % 4, n"
_BOUNDS = {
    "a": ["-1", "0", "2"],
    "a, b": ["(-1, 'b1')", "(0, 'b1')", "(0, 'b2')", "(1, '')"],
    "b, c": ["('b0', '2024-01-02')", "('b1', '2024-01-01')", "('b1', '2024-01-03')"],
    "a, b, c": ["(0, 'b0', '2024-01-03')", "(0, 'b1', '2024-01-02')", "(0, 'b1', '2024-01-04')"],
}


@st.composite
def distributions(draw: st.DrawFn) -> str:
    """The text after CREATE TABLE's columns."""
    hashed = draw(st.sampled_from([(), ("b",), ("a, c",), ("b", "a"), ("c, b",), ("a, b, c",)]))
    parts = [f"HASH ({names}) INTO {draw(st.integers(2, 3))} BUCKETS" for names in hashed]
    ranged = draw(st.sampled_from([None, *_BOUNDS]))
    if ranged is not None:
        values = _BOUNDS[ranged]
        cuts = sorted(draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
        bounds = [values[cut] for cut in cuts]
        own = ""
        if len(hashed) == 1 and draw(st.booleans()):
            own = " HASH (a) INTO 4 BUCKETS"
        ranges = [f"PARTITION VALUES < {bounds[0]}{own}"]
        ranges += [f"PARTITION {low} <= VALUES < {high}" for low, high in pairwise(bounds)]
        ranges.append(f"PARTITION {bounds[-1]} <= VALUES")
        parts.append(f"RANGE ({ranged}) ({', '.join(ranges)})")
    return f"DISTRIBUTE BY {', '.join(parts)}" if parts else ""


@pytest.fixture(scope="module")
def shared() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        yield connection


@pytest.mark.embedded_only("creates many tables of many tablets, and counts the rows of each")
@settings(max_examples=examples(60), deadline=None)
@given(distribution=distributions())
def test_the_conditions_divide_any_table_by_tablets(
    shared: nyala.driver.connection.Connection, distribution: str
) -> None:
    shared.execute(f"CREATE TABLE t ({KEY}) {distribution}")
    try:
        shared.execute(f"INSERT INTO t SELECT {ROWS} FROM generate_series(0, 59) AS g(n)")
        tablets = shared.execute("SELECT partition, rows FROM nyala_catalog.tablets").fetchall()
        found = shared.execute(
            "SELECT partition, condition, snapshot, sql_name, key_column FROM nyala_catalog.partitions ORDER BY number"
        ).fetchall()
        assert [row[0] for row in found] == [partition for partition, _ in tablets]
        assert {row[3:] for row in found} == {("public.t", "a")}
        chosen = zip(found, tablets, strict=True)
        for (_, condition, snapshot, name, _), (_, rows) in list(chosen)[:: 1 + len(tablets) // 5]:
            query = f"SELECT count(*) FROM {name} FOR SYSTEM_TIME AS OF {snapshot} WHERE {condition}"
            assert shared.execute(query).fetchone() == (rows,), condition
            plan = "\n".join(line for (line,) in shared.execute(f"EXPLAIN {query}"))
            # None is read if the bounds leave one value, which is in another bucket.
            read = f" 1 of {len(tablets)} tablets", f" 0 of {len(tablets)} tablets"
            assert len(tablets) == 1 or any(text in plan for text in read), plan
            assert not rows or read[1] not in plan, plan
        # Disjunctions read the tablets of all their branches.
        some = " OR ".join(f"({condition})" for _, condition, *_ in found[:2])
        assert shared.execute(f"SELECT count(*) FROM t WHERE {some}").fetchone() == (sum(n for _, n in tablets[:2]),)
    finally:
        shared.execute("DROP TABLE t")


def test_texts_that_follow_a_text_are_written_without_a_character_0(
    shared: nyala.driver.connection.Connection,
) -> None:
    shared.execute(
        "CREATE TABLE named (s STRING PRIMARY KEY) "
        "DISTRIBUTE BY RANGE (s) (PARTITION VALUE = 'it''s', PARTITION 'm' <= VALUES)"
    )
    query = "SELECT condition FROM nyala_catalog.partitions WHERE table_name = 'named' ORDER BY number"
    assert shared.execute(query).fetchall() == [("s >= 'it''s' AND s <= 'it''s'",), ("s >= 'm'",)]
    shared.execute("DROP TABLE named")


def test_uncommitted_rows_are_in_their_bucket(shared: nyala.driver.connection.Connection) -> None:
    shared.execute("CREATE TABLE h (k INT PRIMARY KEY) DISTRIBUTE BY HASH (k) INTO 4 BUCKETS")
    with shared.duplicate() as other:
        other.execute("BEGIN; INSERT INTO h SELECT n FROM generate_series(1, 40) AS g(n)")
        counts = other.execute("SELECT hash_bucket(4, 0, k), count(*) FROM h GROUP BY 1 ORDER BY 1").fetchall()
        for bucket, rows in counts:
            query = f"SELECT count(*) FROM h WHERE hash_bucket(4, 0, k) = {bucket}"
            assert other.execute(query).fetchone() == (rows,)
            assert other.execute("SELECT count(*) FROM h WHERE hash_bucket(4, 0, k) = ?", (bucket,)).fetchone() == (
                rows,
            )
        other.rollback()
    shared.execute("DROP TABLE h")


def test_hash_bucket_of_null_and_of_other_types(shared: nyala.driver.connection.Connection) -> None:
    query = "SELECT hash_bucket(8, 1, x, 'a') FROM (VALUES (1), (NULL), (1)) AS t (x)"
    first, null, again = (row[0] for row in shared.execute(query).fetchall())
    assert first == again and null is None
    for call in ("hash_bucket(4, 0, 1.5e300)", "hash_bucket(4, 0, TRUE)"):
        with pytest.raises(TypeMismatch, match="argument 3 of hash_bucket cannot be of type"):
            shared.execute(f"SELECT {call}")
    for call in ("hash_bucket(0, 0, 1)", "hash_bucket(x, 0, x)", "hash_bucket(4, -1, x)"):
        with pytest.raises(TypeMismatch, match="must be a constant from"):
            shared.execute(f"SELECT {call} FROM (VALUES (1)) AS t (x)")
