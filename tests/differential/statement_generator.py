"""Random statements that change tables and do the same in nyala, DuckDB and SQLite.

Keys are chosen so that every statement succeeds: an INSERT gives rows new keys or has ON CONFLICT, an UPDATE leaves
keys alone. Which of two rows for one key would win is not tested: a statement has each key at most once.
"""

from __future__ import annotations

from collections.abc import Sequence

from differential.query_generator import Column, Dialect, QueryGenerator, Scope, Table


class StatementGenerator:
    """Makes statements about `tables`, all of which have a key `k`."""

    def __init__(self, seed: int, tables: Sequence[Table], dialect: Dialect) -> None:
        self._maker = QueryGenerator(seed, tables, dialect)
        self._tables = tables

    def statement(self) -> str:
        """One INSERT, UPDATE or DELETE."""
        maker = self._maker
        table = maker.pick(self._tables)
        columns = [(name, kind) for name, kind in table.columns if name != "k"]
        # DuckDB has no alias for the table that it changes.
        own = tuple(Column(f"{table.name}.{name}", kind) for name, kind in table.columns)
        # SQLite's subqueries in a statement see the rows that the same statement has changed already.
        scope = Scope(maker, own, (), self._tables, 1 if maker.dialect.snapshot_writes else 0)
        return str(
            maker.pick((self._update, self._update, self._delete, self._insert, self._upsert))(table, columns, scope)
        )

    def _update(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        chosen = [pair for pair in columns if self._maker.chance(0.5)] or columns[:1]
        listed = ", ".join(f"{name} = {_stored(scope.value(kind, 2), kind)}" for name, kind in chosen)
        return f"UPDATE {table.name} SET {listed} WHERE {scope.condition(2)}"

    def _delete(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        few = f" AND {table.name}.k % 3 = {self._maker.random.randint(0, 2)}"
        return f"DELETE FROM {table.name} WHERE ({scope.condition(2)}){few}"

    def _insert(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        """Rows of the table again, under new keys."""
        new = f"(SELECT coalesce(max(x.k), 0) + 1 FROM {table.name} AS x) + {table.name}.k"
        return f"INSERT INTO {self._target(table)} {self._rows(table, columns, scope, new)}"

    def _upsert(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        rows = self._rows(table, columns, scope, f"{table.name}.k + {self._maker.random.randint(0, 4)}")
        if self._maker.chance(0.3):
            return f"INSERT INTO {self._target(table)} {rows} ON CONFLICT (k) DO NOTHING"
        old = tuple(Column(f"{table.name}.{name}", kind) for name, kind in table.columns)
        new = tuple(Column(f"excluded.{name}", kind) for name, kind in table.columns)
        both = Scope(self._maker, old + new, (), self._tables, 0)
        listed = ", ".join(f"{name} = {_stored(both.value(kind, 1), kind)}" for name, kind in columns[:2])
        where = f" WHERE {both.condition(1)}" if self._maker.chance(0.4) else ""
        return f"INSERT INTO {self._target(table)} {rows} ON CONFLICT (k) DO UPDATE SET {listed}{where}"

    @staticmethod
    def _target(table: Table) -> str:
        return f"{table.name} ({', '.join(name for name, _ in table.columns)})"

    @staticmethod
    def _rows(table: Table, columns: Sequence[tuple[str, str]], scope: Scope, key: str) -> str:
        items = ", ".join(_stored(scope.value(kind, 1), kind) for _, kind in columns)
        return f"SELECT {key}, {items} FROM {table.name} WHERE {scope.condition(1)}"


def _stored(value: str, kind: str) -> str:
    """A value that fits its column however often statements add to it."""
    if kind == "int":
        return f"({value}) % 1000"
    if kind == "text":
        return f"substr({value}, 1, 20)"
    return f"CAST(({value}) % 1000 AS DECIMAL(9, 2))" if kind == "dec" else value
