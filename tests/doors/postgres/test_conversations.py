"""Conversations of clients with a backend, without sockets: golden scripts.

A command is a sequence of messages, one on each line; the output is what the server sends.

    query TEXT | parse [NAME=]TEXT [: OID ...] | bind [PORTAL/NAME] [VALUE, ...] | describe S|P [NAME] | execute [ROWS]
    sync | close S|P NAME | data TEXT | done | fail TEXT
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import nyala
import pytest
from postgres_support import SYNC, Talk, bind, describe, execute, message, parse, query, text

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))
SCHEMA = """
CREATE TABLE hosts (k INT PRIMARY KEY, name STRING, rack BIGINT, price DECIMAL(9, 2), seen TIMESTAMP);
INSERT INTO hosts VALUES (1, 'a', 10, 1.50, TIMESTAMP '2024-01-01 10:00:00'), (2, NULL, 20, NULL, NULL),
  (3, 'c', 30, 3, NULL)
"""


def bytes_of(line: str) -> bytes:
    word, _, rest = line.partition(" ")
    if word == "query":
        return query(rest)
    if word == "parse":
        name, sql, oids = re.fullmatch(r"(?:(\w+)=)?(.*?)((?: : [\d ]+)?)", rest).groups()  # type: ignore[union-attr]
        return parse(sql, name or "", *map(int, oids[3:].split()))
    if word == "bind":
        target, values = re.fullmatch(r"(?:(\w*/\w*)\s*)?(.*)", rest).groups()  # type: ignore[union-attr]
        portal, _, name = (target or "/").partition("/")
        given = [None if v == "NULL" else v.encode() for v in values.split(", ")] if values else []
        return bind(*given, portal=portal, name=name)
    if word == "describe":
        kind, _, name = rest.partition(" ")
        return describe(kind, name)
    if word == "execute":
        rows, _, portal = rest.partition(" ")
        return execute(int(rows or 0), portal)
    if word == "close":
        kind, _, name = rest.partition(" ")
        return message("C", kind.encode() + text(name))
    if word == "data":
        return message("d", rest.encode().decode("unicode_escape").encode())
    return {
        "sync": SYNC, "flush": message("H"), "done": message("c"), "fail": message("f", text(rest)),
        "call": message("F", struct.pack("!i", 1)),
    }[word]  # fmt: skip


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_conversations(path: Path, golden: Callable[[Path, Callable[[str], str]], None]) -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute(SCHEMA)
        talk = Talk(connection)
        try:
            golden(path, lambda command: "\n".join(talk.lines(b"".join(map(bytes_of, command.splitlines())))))
        finally:
            talk.close()


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 6
