"""Texts that spell bytes are the same bytes, whatever the way in: PostgreSQL's hexadecimal and escape forms."""

from __future__ import annotations

from typing import Any

import nyala
import pytest
from nyala.errors import InvalidText

SPELT = [(r"\x6162", b"ab"), (r"\X61 62", b"ab"), (r"\x", b""), ("", b""), (r"a\000\\b", b"a\0\\b"), ("é", b"\xc3\xa9")]


@pytest.fixture
def c() -> Any:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE b (k INT PRIMARY KEY, v BYTEA, s STRING)")
        yield connection


@pytest.mark.parametrize(("text", "value"), SPELT)
def test_every_way_in(c: Any, text: str, value: bytes) -> None:
    assert c.execute(f"SELECT '{text}'::BYTEA").fetchone() == (value,)
    c.execute(f"INSERT INTO b VALUES (1, '{text}', '{text}')")
    c.execute("INSERT INTO b VALUES (?, ?, ?)", (2, text, text))
    c.executemany("INSERT INTO b VALUES (?, ?, ?)", [(k, text, text) for k in range(3, 400)])
    c.execute(f"ALTER TABLE b ADD COLUMN d BYTEA DEFAULT '{text}'")
    rows = c.execute("SELECT DISTINCT v, CAST(s AS BYTEA), d FROM b").fetchall()
    assert rows == [(value, value, value)]
    assert c.execute("SELECT count(*) FROM b WHERE v = ?", (text,)).fetchone() == (399,)


@pytest.mark.parametrize("text", [r"\xabc", r"\xzz", r"a\b", r"\400", "a\\"])
def test_other_backslashes_are_refused(c: Any, text: str) -> None:
    with pytest.raises(InvalidText, match="is not a BINARY"):
        c.execute(f"SELECT '{text}'::BYTEA")
    c.execute("INSERT INTO b VALUES (1, NULL, ?)", (text,))
    with pytest.raises(InvalidText, match="is not a BINARY"):
        c.execute("SELECT CAST(s AS BYTEA) FROM b").fetchall()
    assert c.execute("SELECT TRY_CAST(s AS BYTEA) FROM b").fetchone() == (None,)


def test_bytes_are_what_they_are(c: Any) -> None:
    c.execute("INSERT INTO b (k, v) VALUES (?, ?)", (1, rb"\x61"))
    c.executemany("INSERT INTO b (k, v) VALUES (?, ?)", [(k, rb"\x61") for k in range(2, 300)])
    assert c.execute("SELECT DISTINCT v FROM b").fetchall() == [(rb"\x61",)]
