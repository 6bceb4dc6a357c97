"""Random statements that change tables and do the same in nyala, DuckDB and SQLite.

Keys are chosen so that every statement succeeds: an INSERT gives rows new keys or has ON CONFLICT, an UPDATE leaves
keys alone. Which of two rows for one key would win is not tested: a statement has each key at most once.
"""

from __future__ import annotations

from collections.abc import Sequence

from differential.query_generator import Column, Dialect, QueryGenerator, Scope, Table


def target(statement: str) -> str:
    """The table that a statement changes."""
    return statement.split()[1 if statement.startswith("UPDATE") else 2]


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
        forms = [self._update, self._update, self._delete, self._insert, self._upsert]
        forms += [self._update_from, self._delete_using] if maker.dialect.snapshot_writes else []
        return str(maker.pick(forms)(table, columns, scope))

    def returning(self) -> str:
        """A statement with RETURNING."""
        text = self.statement()
        name = target(text)
        columns = dict(next(table.columns for table in self._tables if table.name == name))
        items = ["k", *(column for column in columns if column != "k" and self._maker.chance(0.5))]
        # DuckDB and SQLite return the new values of columns, as nyala does; joined tables are not named.
        return f"{text} RETURNING {', '.join(f'{name}.{item}' for item in items)}"

    def _update(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        chosen = [pair for pair in columns if self._maker.chance(0.5)] or columns[:1]
        listed = ", ".join(f"{name} = {_stored(scope.value(kind, 2), kind)}" for name, kind in chosen)
        return f"UPDATE {table.name} SET {listed} WHERE {scope.condition(2)}"

    def _delete(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        few = f" AND {table.name}.k % 3 = {self._maker.random.randint(0, 2)}"
        return f"DELETE FROM {table.name} WHERE ({scope.condition(2)}){few}"

    def _update_from(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        """At most one row of the other table for each row, so that it does not matter which of them is taken."""
        del scope
        other, both = self._joined(table)
        chosen = [pair for pair in columns if self._maker.chance(0.5)] or columns[:1]
        listed = ", ".join(f"{name} = {_stored(both.value(kind, 1), kind)}" for name, kind in chosen)
        distance = self._maker.random.randint(0, 3)
        joined = f"{table.name}.k = x.k + {distance} AND {both.condition(1)}"
        return f"UPDATE {table.name} SET {listed} FROM {other.name} AS x WHERE {joined}"

    def _delete_using(self, table: Table, columns: Sequence[tuple[str, str]], scope: Scope) -> str:
        del columns, scope
        other, both = self._joined(table)
        few = f"{table.name}.k % 3 = {self._maker.random.randint(0, 2)}"
        joined = f"{table.name}.k = x.k AND {both.condition(1)} AND {few}"
        return f"DELETE FROM {table.name} USING {other.name} AS x WHERE {joined}"

    def _joined(self, table: Table) -> tuple[Table, Scope]:
        other = self._maker.pick(self._tables)
        own = tuple(Column(f"{table.name}.{name}", kind) for name, kind in table.columns)
        more = tuple(Column(f"x.{name}", kind) for name, kind in other.columns)
        return other, Scope(self._maker, own + more, (), self._tables, 1)

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
