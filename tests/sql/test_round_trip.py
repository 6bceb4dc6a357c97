"""Every parsed statement can be written, and its text parses to the same tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nyala
import pytest
from nyala.sql import generate, parse

GOLDEN = Path(__file__).parent / "golden"
QUERIES = sorted((Path(nyala.__file__).parent / "tpch" / "query_texts").glob("*.sql"))


def round_trip(text: str) -> str:
    written = []
    for parsed in parse(text):
        once = generate(parsed.tree)
        (again,) = parse(once)
        assert again.tree == parsed.tree, once
        assert generate(again.tree) == once
        written.append(once)
    return "\n".join(written)


def test_statements_are_written_as_they_were_read(
    golden: Callable[[Path, Callable[[str], str]], None],
) -> None:
    golden(GOLDEN / "round_trip.txt", round_trip)
    golden(GOLDEN / "round_trip_transactions.txt", round_trip)


@pytest.mark.parametrize("path", QUERIES, ids=[path.stem for path in QUERIES])
def test_tpch_queries_survive(path: Path) -> None:
    assert round_trip(path.read_text(encoding="utf-8")).startswith(("SELECT", "WITH"))


def test_there_are_22_tpch_queries() -> None:
    assert len(QUERIES) == 22


def test_statements_are_split_at_semicolons_and_keep_their_place() -> None:
    text = "select 1; -- one\n;; select ';' ;\nshow tables"
    found = parse(text)
    assert [p.sql for p in found] == ["select 1", "select ';'", "show tables"]
    assert all(p.text is text and text[p.start : p.end] == p.sql for p in found)
    assert parse(" ;; -- nothing\n") == []
