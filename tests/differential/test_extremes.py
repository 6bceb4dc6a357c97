"""Sorting, grouping, joining and comparing values at the ends of their types, in memory and in every state on disk.

NYALA_EXTREMES=2000 tries more examples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import nyala
import pytest
from differential.extremes import FAMILIES, QUERIES, Extreme, Tables, filled
from examples import cases
from hypothesis import given, note, settings
from hypothesis import strategies as st
from nyala.errors import NumericOutOfRange

EXAMPLES = int(os.environ.get("NYALA_EXTREMES", cases(25)))
QUERIES_AT_ONCE = 12
STATES = ("memory", "flushed", "compacted", "deltas")


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    connection = duckdb.connect(config={"threads": 1, "default_null_order": "nulls_last_on_asc_first_on_desc"})
    yield connection
    connection.close()


@st.composite
def _tables(draw: st.DrawFn, kinds: tuple[Extreme, ...]) -> Tables:
    own, other = draw(st.sampled_from(kinds)), draw(st.sampled_from(kinds))

    def rows(kind: Extreme) -> Any:
        places = st.integers(0, len(kind.literals) - 1)
        ends = st.sampled_from([0, len(kind.literals) - 1])
        cell = places | ends | st.none() if draw(st.booleans()) else places | ends
        return draw(st.lists(st.tuples(cell, cell, st.integers(0, 2)), max_size=10))

    return Tables(own, other, rows(own), rows(other))


def _relation(name: str, kind: Extreme) -> str:
    if not kind.stored:
        return name
    cells = ", ".join(f"CAST({column} AS {kind.name}) AS {column}" for column in ("v", "w"))
    return f"(SELECT k, g, {cells} FROM {name})"


def _stored(kind: Extreme, literal: str) -> str:
    return literal.removeprefix(f"{kind.name} ") if kind.stored else literal


def _fill_ours(connection: Any, tables: Tables, state: str, encoding: str) -> None:
    for name, kind, own in (("t", tables.own, tables.t), ("u", tables.other, tables.u)):
        nullable = any(v is None or w is None for v, w, _ in own)
        definition = f"{kind.stored or kind.name}{'' if nullable else ' NOT NULL'}"
        definition += f" ENCODING {encoding}" if encoding in kind.encodings else ""
        connection.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, g SMALLINT, v {definition}, w {definition})")
        rows = tables.rows(name, _stored)
        if not rows:
            continue
        if state == "deltas":
            # As many rows with another's values, which are updated to their own.
            other = [f"({k}, {row.split(', ', 1)[1]}" for k, row in enumerate(reversed(rows))]
            connection.execute(f"INSERT INTO {name} VALUES {', '.join(other)}")
            connection.execute(f"COMPACT TABLE {name}")
            connection.execute(f"UPSERT INTO {name} VALUES {', '.join(rows)}")
        else:
            connection.execute(f"INSERT INTO {name} VALUES {', '.join(rows)}")
        if state == "flushed":
            connection.store.flush()
        if state == "compacted":
            connection.execute(f"COMPACT TABLE {name}")


def _fill_duck(connection: Any, tables: Tables, ranks: dict[Any, int]) -> None:
    for name in ("t", "u"):
        connection.execute(f"CREATE OR REPLACE TABLE {name} (k INT, g INT, v INT, w INT)")
        rows = tables.rows(name, lambda kind, literal: str(ranks[kind.key_of(literal)]))
        if rows:
            connection.execute(f"INSERT INTO {name} VALUES {', '.join(rows)}")


def _answer(cursor: Any, text: str, value: Callable[[Any], Any]) -> list[tuple[Any, ...]]:
    found = cursor.execute(text)
    values = [column[0].startswith("v") for column in found.description]
    rows = [
        tuple(cell if cell is None else value(cell) if is_value else int(cell) for cell, is_value in zip(row, values))
        for row in found.fetchall()
    ]
    return rows if " ORDER BY v" in text and ("LIMIT" in text or "k" not in text) else sorted(rows, key=repr)


def _compare(connection: Any, duck: Any, tables: Tables, query: str, seed: int) -> None:
    own, other = tables.own, tables.other
    if own.stored and " AS v1" in query:
        return  # the result is a timedelta, in which a month and its days are the same
    ranks = tables.ranks()
    text, constants = filled(query, seed, own, other)
    mine = text.replace("{t}", _relation("t", own)).replace("{u}", _relation("u", other))
    theirs = text.replace("{t}", "t").replace("{u}", "u")
    for (place, literal), kind in zip(constants, (own, other)):
        mine = mine.replace(place, f"CAST({literal} AS {kind.name})" if seed % 3 else literal)
        theirs = theirs.replace(place, str(ranks[kind.key_of(literal)]))
    expected = _answer(duck, theirs.replace("min_by", "arg_min").replace("max_by", "arg_max"), int)

    def rank(value: Any) -> int:
        return ranks[own.key(value)]

    try:
        found = _answer(connection, mine, rank)
    except NumericOutOfRange:
        # The result has a type, and what comes out must be of it.
        if own.name != other.name and ("UNION" in query or "EXCEPT" in query):
            return
        note(mine)
        raise
    if found != expected:
        note(f"{mine}\n  found    {found}\n  expected {expected}")
    assert found == expected


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_ends_of_types_compare_as_their_ranks(duck: Any, family: str, data: st.DataObject) -> None:
    tables = data.draw(_tables(FAMILIES[family]))
    state, encoding = data.draw(st.sampled_from(STATES)), data.draw(st.sampled_from(tables.own.encodings))
    chosen = data.draw(
        st.lists(st.tuples(st.sampled_from(QUERIES), st.integers(0, 99)), min_size=1, max_size=QUERIES_AT_ONCE)
    )
    _fill_duck(duck, tables, tables.ranks())
    with nyala.connect(":memory:", threads=1) as connection:
        _fill_ours(connection, tables, state, encoding)
        for query, seed in chosen:
            _compare(connection, duck, tables, query, seed)
