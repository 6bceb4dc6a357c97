"""A store of every kind of file opens as an earlier nyala left it, and what it packs as msgpack keeps its bytes.

`old_files/all_kinds.zip` is a directory in which `STATEMENTS` and `CHANGES` were executed, copied while it was open:
catalog, metadata, statistics, column, Bloom and delta files, and logs that are to be replayed.
"""

from __future__ import annotations

import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import nyala
import pytest

OLD_STORE = Path(__file__).parent / "old_files" / "all_kinds.zip"
WIDE = 10**37 + 1
"""A DECIMAL(38, 0) far beyond 64 bits."""
COLUMNS = "k, w, f, t, b, d, s, p"


def row(k: int) -> list[Any]:
    """A row with values of all kinds; NULLs where `k` is a multiple of 7."""
    if k % 7 == 0:
        return [k, *[None] * 7]
    day, wide = f"2026-01-{k % 28 + 1:02}", (-1) ** k * (WIDE + k)
    return [k, wide, k / 4, f"text {k % 5}", bytes([k % 256, 0xFF]), day, Decimal(k) / 100, f"lighthouse {k:04}"]


INSERT = f"INSERT INTO a ({COLUMNS}) VALUES (?, ?, ?, ?, ?, CAST(? AS DATE), ?, ?)"
STATEMENTS: list[tuple[str, list[Any]]] = [
    (
        f"CREATE TABLE a (k BIGINT NOT NULL, w DECIMAL(38, 0) DEFAULT {WIDE}, f DOUBLE, t STRING ENCODING DICT,"
        " b BINARY, d DATE, s DECIMAL(9, 2), p STRING ENCODING PREFIX, PRIMARY KEY (k)) COMMENT 'of all kinds'",
        [],
    ),
    (
        f"CREATE TABLE w (n DECIMAL(38, 0) NOT NULL, x INT, PRIMARY KEY (n)) PARTITION BY HASH (n) PARTITIONS 2, "
        f"RANGE (n) (PARTITION VALUES < {WIDE}, PARTITION {WIDE} <= VALUES)",
        [],
    ),
    ("CREATE VIEW v AS SELECT k, w FROM a WHERE k < 10", []),
    *((INSERT, row(k)) for k in range(40)),
    (f"INSERT INTO w VALUES (0, 1), ({WIDE}, 2), ({WIDE + 1}, 3)", []),
    ("COMPACT TABLE a", []),
    ("COMPACT TABLE w", []),
    ("UPDATE a SET w = w + 1, t = 'updated', f = NULL WHERE k BETWEEN 10 AND 19", []),
    ("DELETE FROM a WHERE k = 20", []),
    ("UPDATE a SET s = 0.5 WHERE k = 5", []),
    ("ANALYZE TABLE a", []),  # flushes the changes, as deltas
    ("ALTER TABLE a ADD COLUMN later DECIMAL(38, 0) DEFAULT 7", []),
]
CHANGES: list[tuple[str, list[Any]]] = [
    *((INSERT, row(k)) for k in range(41, 44)),
    ("UPDATE a SET w = ? WHERE k = ?", [WIDE * 2, 1]),
    ("DELETE FROM a WHERE k = ?", [2]),
    (f"INSERT INTO w VALUES (5, 1), ({WIDE + 5}, 2), (-{WIDE}, 3)", []),
    ("UPDATE w SET x = x + 10", []),
]
"""They are in logs alone."""
LOADED = [{"n": WIDE + 100, "x": 9}, {"n": -WIDE - 100, "x": None}]
"""A bulk load into `w`, behind all statements."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    zipfile.ZipFile(OLD_STORE).extractall(tmp_path / "old")
    return tmp_path / "old"


def expected_rows() -> list[tuple[Any, ...]]:
    """Table `a` after all statements."""
    rows = {k: row(k) for k in [*range(40), 41, 42, 43] if k not in (2, 20)}
    for k in range(10, 20):
        wide = rows[k][1]
        rows[k][1:4] = [None if wide is None else wide + 1, None, "updated"]
    rows[5][6] = Decimal("0.5")
    rows[1][1] = WIDE * 2
    return [(*values, 7) for values in rows.values()]


def test_a_store_of_every_kind_of_file_opens_and_goes_on(directory: Path) -> None:
    rows, query = expected_rows(), f"SELECT {COLUMNS}, later FROM a ORDER BY k"

    def verify(connection: nyala.Connection) -> None:
        found = connection.execute(query).fetchall()
        assert [(*r[:5], None if r[5] is None else str(r[5]), *r[6:]) for r in found] == rows
        wide = [(0, 11), (5, 11), (WIDE, 12), (WIDE + 1, 13), (WIDE + 5, 12), (-WIDE, 13)]
        loaded = [(r["n"], r["x"]) for r in LOADED]
        assert sorted(connection.execute("SELECT n, x FROM w").fetchall()) == sorted([*wide, *loaded])
        assert connection.execute("SELECT max(w) FROM v").fetchall() == [(WIDE * 2,)]
        assert connection.execute("SELECT x FROM w WHERE n = ?", [WIDE + 1]).fetchall() == [(13,)]
        default = connection.store.table("a").schema.column("w").default
        assert default == WIDE and type(default) is int
        connection.store.check()

    with nyala.connect(directory) as connection:
        verify(connection)
    with nyala.connect(directory) as connection:  # it has written all of its files anew
        connection.execute("COMPACT TABLE a")
        connection.execute("COMPACT TABLE w")
        verify(connection)
    with nyala.connect(directory) as connection:
        verify(connection)
