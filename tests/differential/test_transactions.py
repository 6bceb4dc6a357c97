"""Generated statements and queries in transactions, the same in nyala and in a second engine.

A transaction changes tables, sets savepoints and goes back to them; after each step, queries over the snapshot and the
own rows give what they give in the second engine. Another connection sees nothing of it before COMMIT, and what it
writes meanwhile is not seen.

NYALA_TRANSACTIONS=500 runs more of them, NYALA_SEED=7 others.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nyala
import pytest
from differential.oracles import DuckDB, Oracle, PostgreSQL, Refused, SQLite
from differential.query_generator import DUCKDB, SQLITE, Dialect, QueryGenerator, Table
from differential.statement_generator import StatementGenerator, target
from differential.test_differential import TABLES, answer, compare, fill
from differential.test_statements import IN_SQLITE
from examples import cases
from nyala.bench.postgres import PostgresServer, is_installed
from nyala.storage.transactions import base_rows
from nyala.storage.transactions.transaction_store import TransactionStore

TRANSACTIONS = max(int(os.environ.get("NYALA_TRANSACTIONS", cases(12))), 4)
SEED = int(os.environ.get("NYALA_SEED", "1"))
STEPS = 8
SAVEPOINTS = ("p", "q")
# DuckDB takes rows in IN for structs, in which NULLs are equal. PostgreSQL 15 drops a constant of ROLLUP from ORDER BY.
POSTGRES = replace(DUCKDB, rows=True, grouping_sets=False)
FORMS = ("memory", "compacted", "hashed", "spilled")


class Run:
    """One transaction in both engines."""

    def __init__(self, seed: int, mine: nyala.Connection, other: Oracle, tables: tuple[Table, ...], dialect: Dialect):
        self.random = random.Random(seed)
        self.mine, self.other, self.tables, self.dialect = mine, other, tables, dialect
        self.outside = mine.duplicate()
        self.beside = self.random.choice(TABLES)
        """The table that others write to meanwhile."""
        self.later: list[str] = []
        self.saved: list[str] = []
        self.script: list[str] = []
        self.accepted = self.seen = 0

    def run(self) -> None:
        try:
            self.transact()
        except BaseException as error:
            error.add_note(";\n".join(self.script))
            raise
        finally:
            self.outside.close()

    def transact(self) -> None:
        level = self.random.choice(("SNAPSHOT", "SERIALIZABLE"))
        before = {table.name: self.rows(self.outside, table) for table in TABLES}
        self.both(f"BEGIN ISOLATION LEVEL {level}", self.other.begin)
        steps = [self.write] * 6 + [self.fail, self.savepoint, self.savepoint, self.go_back, self.release]
        steps += [self.write_outside] if level == "SNAPSHOT" else []
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.query()
        for table in TABLES:
            if table != self.beside:
                assert self.rows(self.outside, table) == before[table.name]
            self.check(table)
        commits = self.random.random() < 0.6
        self.both("COMMIT" if commits else "ROLLBACK", lambda: self.other.end(commits))
        for text in self.later:
            self.other.execute(text)
        for table in TABLES:
            self.check(table)
            assert self.rows(self.outside, table) == self.rows(self.mine, table)

    def both(self, text: str, theirs: Callable[[], object]) -> None:
        self.script.append(text)
        self.mine.execute(text)
        theirs()

    # ---- steps

    def write(self) -> None:
        tables = self.tables if not self.later else tuple(t for t in self.tables if t.name != self.beside.name)
        maker = StatementGenerator(self.random.randrange(1 << 40), tables, self.dialect)
        text = maker.returning() if self.random.random() < 0.4 else maker.statement()
        try:
            expected = self.plain(self.other.execute(text))
        except Refused:
            return
        self.script.append(text)
        self.accepted += 1
        cursor = self.mine.execute(text)
        if " RETURNING " in text:
            assert self.plain(cursor.fetchall()) == expected
        self.check(next(table for table in TABLES if table.name == target(text)))

    def fail(self) -> None:
        """A statement that is refused in its last row changes nothing, and the transaction goes on."""
        table = self.random.choice(self.tables)
        if not (there := self.mine.execute(f"SELECT max(k), min(k) FROM {table.name}").fetchone())[0]:
            return
        text = f"INSERT INTO {table.name} (k) VALUES ({there[0] + 1}), ({there[1]})"
        self.script.append(text)
        with pytest.raises(nyala.IntegrityError):
            self.mine.execute(text)
        self.check(next(whole for whole in TABLES if whole.name == table.name))

    def savepoint(self) -> None:
        name = self.random.choice(SAVEPOINTS)
        self.saved.append(name)
        self.both(f"SAVEPOINT {name}", lambda: self.other.savepoint(name))

    def go_back(self) -> None:
        if self.saved:
            name = self.random.choice(self.saved)
            self.both(f"ROLLBACK TO {name}", lambda: self.other.rollback_to(name))
            del self.saved[self.last(name) + 1 :]
            for table in TABLES:
                self.check(table)

    def release(self) -> None:
        if self.saved:
            name = self.random.choice(self.saved)
            self.both(f"RELEASE {name}", lambda: self.other.release(name))
            del self.saved[self.last(name) :]

    def last(self, name: str) -> int:
        return max(place for place, known in enumerate(self.saved) if known == name)

    def write_outside(self) -> None:
        """Another connection writes to a table that this transaction does not write to."""
        if not self.later and any(f" {self.beside.name} " in f"{text} " for text in self.script):
            return
        key = self.random.randrange(12)
        text = self.random.choice(
            (
                f"DELETE FROM {self.beside.name} WHERE k >= {key}",
                f"INSERT INTO {self.beside.name} (k, s) VALUES ({key}, 'abc') ON CONFLICT (k) DO UPDATE SET s = 'zz'",
            )
        )
        self.later.append(text)
        self.script.append(f"/* outside */ {text}")
        self.outside.execute(text)

    # ---- reading

    def query(self) -> None:
        """Queries of any form, and some that look up or order keys."""
        maker = QueryGenerator(self.random.randrange(1 << 40), self.tables, self.dialect)
        compare(self.ours, self.theirs, [maker.query(), *self.by_key()])

    def ours(self, text: str) -> list[tuple[Any, ...]]:
        return self.mine.execute(text).fetchall()

    def theirs(self, text: str) -> Any:
        found = self.other.execute(text)
        self.seen += 1
        return found

    def by_key(self) -> list[str]:
        table, other = self.random.choice(self.tables), self.random.choice(self.tables)
        listed = ", ".join(name for name, _ in table.columns)
        key, more, few = self.random.randrange(30), self.random.randrange(30), self.random.randint(1, 6)
        name, low = table.name, min(key, more)
        queries = [
            f"SELECT {listed} FROM {name} WHERE k = {key}",
            f"SELECT {listed} FROM {name} WHERE k IN ({key}, {more}, {few})",
            f"SELECT {listed} FROM {name} WHERE k >= {low} ORDER BY 1 LIMIT {few}",
            f"SELECT k, s FROM {name} ORDER BY 1 DESC LIMIT {few} OFFSET {low % 4}",
            f"SELECT s, k FROM {name} ORDER BY 1 DESC NULLS LAST, 2 LIMIT {few}",
            f"SELECT count(*), min(k), max(k) FROM {name}",
            f"SELECT count(*) FROM {name} WHERE k BETWEEN {low} AND {low + 4}",
            f"SELECT x.k, y.k, y.s FROM {name} AS x JOIN {other.name} AS y ON x.k = y.k AND x.k > {low}",
            f"SELECT x.k, (SELECT y.s FROM {other.name} AS y WHERE y.k = x.k + {few}) AS s FROM {name} AS x",
            f"SELECT x.k FROM {name} AS x WHERE NOT EXISTS (SELECT 1 FROM {other.name} AS y WHERE y.k = x.k)",
            f"SELECT x.k FROM {name} AS x WHERE x.k IN (SELECT y.k FROM {other.name} AS y WHERE y.s = 'a')",
            f"SELECT k, row_number() OVER (ORDER BY k) AS n FROM {name} WHERE k < {key}",
        ]
        return self.random.sample(queries, 2)

    def rows(self, connection: nyala.Connection, table: Table) -> list[tuple[Any, ...]]:
        return answer(lambda text: connection.execute(text).fetchall(), content(table))

    def check(self, table: Table) -> None:
        assert self.rows(self.mine, table) == answer(self.other.execute, content(table)), table.name

    @staticmethod
    def plain(rows: Any) -> list[tuple[Any, ...]]:
        return answer(lambda _: rows, "")


def content(table: Table) -> str:
    return f"SELECT {', '.join(name for name, _ in table.columns)} FROM {table.name} ORDER BY 1"


@pytest.fixture(params=FORMS)
def ours(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[nyala.Connection]:
    """Tables in some form; own rows in files, and looked up by scans, too."""
    if request.param == "spilled":
        monkeypatch.setattr(base_rows, "_SINGLE_KEYS", 0)
        limit = TransactionStore._limit_memory

        def limited(self: Any) -> None:
            self._limit = 1
            limit(self)

        monkeypatch.setattr(TransactionStore, "_limit_memory", limited)
    with nyala.connect(":memory:", threads=1) as connection:
        suffix = " DISTRIBUTE BY HASH(k) INTO 3 BUCKETS" if request.param == "hashed" else ""
        fill(lambda text: connection.execute(text + suffix if text.startswith("CREATE") else text))
        if request.param == "compacted":
            for table in TABLES:
                connection.execute(f"COMPACT TABLE {table.name}")
        yield connection


def transactions(ours: Any, other: Oracle, tables: tuple[Table, ...], dialect: Dialect, seed: int) -> None:
    seen = accepted = 0
    try:
        fill(other.execute)
        for number in range(TRANSACTIONS // 4):
            one = Run(SEED * 1_000_000 + seed + number, ours, other, tables, dialect)
            one.run()
            seen, accepted = seen + one.seen, accepted + one.accepted
    finally:
        other.close()
    # A second engine that refuses most of them would prove nothing.
    assert accepted >= TRANSACTIONS // 4 and seen > 2 * STEPS * (TRANSACTIONS // 4)


def seed_of(request: pytest.FixtureRequest) -> int:
    return 10_000 * next(n for n, form in enumerate(FORMS) if form in request.node.name)


def test_transactions_as_in_duckdb(ours: Any, request: pytest.FixtureRequest) -> None:
    transactions(ours, DuckDB(), TABLES, DUCKDB, seed_of(request))


def test_transactions_as_in_sqlite(ours: Any, request: pytest.FixtureRequest) -> None:
    transactions(ours, SQLite(), IN_SQLITE, SQLITE, 100_000 + seed_of(request))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg")
    if not is_installed():
        pytest.skip("no PostgreSQL server")
    folder = tempfile.TemporaryDirectory(prefix="nyala-test-")
    with folder as directory, PostgresServer(Path(directory, "home"), "os") as found:
        yield found


@pytest.mark.slow
def test_transactions_as_in_postgresql(ours: Any, server: PostgresServer, request: pytest.FixtureRequest) -> None:
    transactions(ours, PostgreSQL(server.dsn), TABLES, POSTGRES, 200_000 + seed_of(request))
