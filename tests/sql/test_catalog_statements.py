"""Catalog statements, and CREATE TABLE whole: written as they are read, bound, and refused if wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nyala
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.sql import bind, bound, generate, parse
from nyala.sql.binding.catalog.views import ChangedCatalog

GOLDEN = Path(__file__).parent / "golden"
QUERIES = sorted((Path(nyala.__file__).parent / "tpch" / "query_texts").glob("*.sql"))
Golden = Callable[[Path, Callable[[str], str]], None]


def round_trip(text: str) -> str:
    written = []
    for parsed in parse(text):
        once = generate(parsed.tree)
        (again,) = parse(once)
        assert again.tree == parsed.tree, once
        written.append(once)
    return "\n".join(written)


def test_statements_are_written_as_they_were_read(golden: Golden) -> None:
    golden(GOLDEN / "round_trip_catalog.txt", round_trip)


def test_wrong_statements_say_what_is_wrong_and_where(golden: Golden, explain_binding: Callable[[str], str]) -> None:
    golden(GOLDEN / "errors_catalog.txt", explain_binding)


def test_all_of_them_are_errors_with_a_place() -> None:
    outputs = (GOLDEN / "errors_catalog.txt").read_text(encoding="utf-8").split("\n---\n")[1:]
    assert len(outputs) > 60
    for output in outputs:
        message = output.split("\n\n")[0]
        assert re.match(r"\w+: .+\nLINE 1: .+\n +\^+", message), message


def test_what_is_right_is_bound(golden: Golden, explain_binding: Callable[[str], str]) -> None:
    golden(GOLDEN / "bound_catalog.txt", explain_binding)


@pytest.mark.parametrize("path", QUERIES, ids=[path.stem for path in QUERIES])
def test_a_query_gives_the_same_columns_as_a_view(path: Path, catalog: Any) -> None:
    (query,) = parse(path.read_text(encoding="utf-8"))
    statement = bind(query, catalog)
    assert isinstance(statement, bound.SelectStatement)
    (create,) = parse(f"CREATE VIEW v AS {query.sql}")
    made = bind(create, catalog)
    assert isinstance(made, bound.CreateView)
    used = bind(parse("SELECT * FROM v")[0], ChangedCatalog(catalog, new_views={"v": made.view}))
    assert isinstance(used, bound.SelectStatement)

    def outline(statement: bound.SelectStatement) -> list[tuple[Any, ...]]:
        return [(column.name, column.type, column.nullable) for column in statement.query.columns]

    assert outline(used) == outline(statement)


# ---- any CREATE TABLE ------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "host", '"Odd name"', '"range"', "bound", "value", "buckets"])
TYPES = st.sampled_from(["INT", "STRING", "DECIMAL(9, 2)", "TIMESTAMP", "VARCHAR(7)", "BINARY", "DOUBLE", "BOOLEAN"])
VALUES = st.sampled_from(["1", "-2.5", "'it''s'", "CAST('2026-01-01' AS DATE)", "NULL", "x'00ff'", "TRUE", "1 + 2"])
ATTRIBUTES = [
    st.sampled_from(["NULL", "NOT NULL"]),
    VALUES.map(lambda value: f"DEFAULT {value}"),
    st.sampled_from(["PRIMARY KEY", "NON UNIQUE PRIMARY KEY"]),
    st.just("IMMUTABLE"),
    st.sampled_from(["ENCODING DICT", "ENCODING bit_shuffle"]),
    st.just("COMPRESSION ZSTD"),
    st.just("BLOCK_SIZE 4096"),
    st.just("COMMENT 'it''s'"),
]


def csv(items: st.SearchStrategy[str], least: int = 1) -> st.SearchStrategy[str]:
    return st.lists(items, min_size=least, max_size=3).map(", ".join)


def some(items: list[st.SearchStrategy[str]]) -> st.SearchStrategy[str]:
    """Draw some of the items in any order, each at most once."""
    chosen = st.lists(st.integers(0, len(items) - 1), unique=True, max_size=len(items))
    return chosen.flatmap(lambda places: st.tuples(*(items[place] for place in places))).map(" ".join)


def joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


HASHES = joined("HASH", st.one_of(st.just(""), joined(" (", csv(NAMES), ")")), " INTO 4 BUCKETS")
ROWS = st.one_of(VALUES, joined("(", csv(VALUES, 2), ")"))
BOUNDS = joined(
    "PARTITION ",
    st.one_of(
        joined("VALUE = ", ROWS),
        joined("VALUES < ", ROWS),
        joined(ROWS, " <= VALUES"),
        joined(ROWS, " <= VALUES < ", ROWS),
    ),
    st.lists(HASHES, max_size=2).map(lambda rules: "".join(f" {rule}" for rule in rules)),
)
SPLITS = joined("SPLIT ROWS (", csv(ROWS), ")")
RANGE_BOUNDS = csv(joined("RANGE BOUND (", ROWS, ", ", ROWS, ")"))
RANGES = joined(
    "RANGE (",
    csv(NAMES),
    ") (",
    st.one_of(csv(BOUNDS, 0), SPLITS, RANGE_BOUNDS, joined(RANGE_BOUNDS, " ", SPLITS)),
    ")",
)
CLAUSES = some(
    [
        joined("DISTRIBUTE BY ", csv(st.one_of(HASHES, RANGES))),
        st.just("REPLICAS 3"),
        st.just("STORED AS KUDU"),
        st.just("TBLPROPERTIES ('a' = 'b', 'kudu.num_tablet_replicas' = '3')"),
        st.just("COMMENT 'it''s'"),
    ]
)
COLUMNS = joined(NAMES, " ", TYPES, " ", some(ATTRIBUTES)).map(str.rstrip)
KEYS = st.one_of(joined("PRIMARY KEY (", csv(NAMES), ")"), joined("NON UNIQUE PRIMARY KEY (", csv(NAMES, least=0), ")"))
STARTS = joined("CREATE TABLE ", st.sampled_from(["", "IF NOT EXISTS "]), st.sampled_from(["", "main."]), NAMES)
CREATE_TABLES = st.one_of(
    joined(STARTS, " (", csv(COLUMNS), st.one_of(st.just(""), joined(", ", KEYS)), ") ", CLAUSES).map(str.rstrip),
    joined(STARTS, " (", KEYS, ") ", CLAUSES, st.just(" AS SELECT * FROM t")).map(lambda text: text.replace("  ", " ")),
    joined(STARTS, " LIKE ", NAMES),
)


@given(CREATE_TABLES)
def test_any_create_table_is_written_as_it_was_read(text: str) -> None:
    (parsed,) = parse(text)
    assert generate(parsed.tree) == text
    (again,) = parse(text.lower())
    assert generate(again.tree).lower() == text.lower()
