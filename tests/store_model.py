"""A table as a dictionary of versions: what the storage tests hold the store against.

Rows are kept by column id, so that columns may be added, dropped and renamed in between: a version that has no value of
a column shows its initial value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nyala.model.schema import ColumnSchema, Schema
from nyala.model.store import Op

IGNORES = {Op.INSERT_IGNORE, Op.UPSERT_IGNORE, Op.UPDATE_IGNORE, Op.DELETE_IGNORE}

Row = dict[int, Any]
"""Values by column id."""


@dataclass
class Version:
    """A row from `timestamp` on; None: it does not exist."""

    timestamp: int
    row: Row | None
    columns: frozenset[int] | None = None
    """Of an update: the columns that it set."""


@dataclass
class Outcome:
    """Expected result of a batch: the error class's name by row number, and the new row of each key it changes."""

    errors: dict[int, str] = field(default_factory=dict)
    applied: int = 0
    changes: dict[tuple[Any, ...], Row | None] = field(default_factory=dict)
    columns: dict[tuple[Any, ...], set[int]] = field(default_factory=dict)


@dataclass
class Changes:
    """Rows of a diff scan, and those of them that must not be missing."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    certain: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, row: tuple[Any, ...], is_certain: bool) -> None:
        self.rows.append(row)
        if is_certain:
            self.certain.append(row)

    def allow(self, found: Sequence[tuple[Any, ...]]) -> bool:
        """True if a scan may return these rows."""
        return [row for row in self.rows if row in found] == list(found) and all(r in found for r in self.certain)


class TableModel:
    """All versions of all rows of one table."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.versions: dict[tuple[Any, ...], list[Version]] = {}

    # ---- writing -------------------------------------------------------------------------------------------------

    def resolve(self, ops: Sequence[Op], rows: Sequence[Mapping[str, Any]]) -> Outcome:
        """Outcome of a batch, row by row; `rows` map names to values, columns left out are not set."""
        outcome = Outcome()
        for number, (op, given) in enumerate(zip(ops, rows)):
            key = tuple(given[column.name] for column in self.schema.key)
            before = outcome.changes[key] if key in outcome.changes else self.latest(key)
            result = self._apply(op, before, given)
            if isinstance(result, str):
                outcome.errors[number] = result
            elif result is not None:
                row = outcome.changes[key] = result[0]
                outcome.applied += 1
                if row is not None:
                    # An update of a row's whole life in one batch sets everything.
                    names = self._changeable & given.keys() if before is not None else self._changeable
                    outcome.columns.setdefault(key, set()).update(self.schema.column(n).id for n in names)
        return outcome

    def _apply(self, op: Op, before: Row | None, given: Mapping[str, Any]) -> str | tuple[Row | None] | None:
        """An error's name, None where nothing happens, or the row afterwards in a tuple."""
        values = {self.schema.column(name).id: value for name, value in given.items()}
        if op in (Op.DELETE, Op.DELETE_IGNORE):
            if before is None:
                return None if op in IGNORES else "NotFound"
            return (None,)
        if any(value is None and not self.schema.column(name).nullable for name, value in given.items()):
            return "NotNullViolation"
        if op in (Op.UPDATE, Op.UPDATE_IGNORE) and before is None:
            return None if op in IGNORES else "NotFound"
        if op in (Op.INSERT, Op.INSERT_IGNORE) and before is not None:
            return None if op in IGNORES else "AlreadyPresent"
        if before is not None:
            frozen = {c.id for c in self.schema.columns if c.immutable}
            if frozen & values.keys() and op not in IGNORES:
                return "ImmutableColumn"
            keys = {c.id for c in self.schema.key}
            changed = {column: v for column, v in values.items() if column not in frozen | keys}
            # What sets nothing is no change, and leaves no version.
            return ({**before, **changed},) if changed else None
        row = {}
        for column in self.schema.columns:
            row[column.id] = values[column.id] if column.id in values else python(column, column.default)
            if row[column.id] is None and not column.nullable:
                return "NotNullViolation"
        return (row,)

    @property
    def _changeable(self) -> set[str]:
        return {c.name for c in self.schema.columns[self.schema.key_columns :] if not c.immutable}

    def commit(self, outcome: Outcome, timestamp: int) -> None:
        """Make a batch's changes versions. A key that is again as if nothing had happened gets none."""
        for key, row in outcome.changes.items():
            before = self.latest(key)
            if row is not None or before is not None:
                columns = None
                if row is not None and before is not None:
                    columns = frozenset(outcome.columns[key])
                self.versions.setdefault(key, []).append(Version(timestamp, row, columns))

    # ---- reading -------------------------------------------------------------------------------------------------

    def latest(self, key: tuple[Any, ...]) -> Row | None:
        versions = self.versions.get(key)
        return versions[-1].row if versions else None

    def state(self, key: tuple[Any, ...], time: int) -> Row | None:
        """The row as of a time."""
        row = None
        for version in self.versions.get(key, ()):
            if version.timestamp > time:
                break
            row = version.row
        return row

    def rows(self, columns: Sequence[str], time: int) -> list[tuple[Any, ...]]:
        """All rows as of a time, by key."""
        wanted = [self.schema.column(name) for name in columns]
        found = []
        for key in sorted(self.versions):
            row = self.state(key, time)
            if row is not None:
                found.append(shown(row, wanted))
        return found

    def net_changes(self, columns: Sequence[str], since: int, until: int) -> Changes:
        """(change, columns...) by key of the rows that a diff scan shows; an update may have changed nothing."""
        wanted = [self.schema.column(name) for name in columns]
        found = Changes()
        for key in sorted(self.versions):
            within = [v for v in self.versions[key] if since < v.timestamp <= until]
            before, after = self.state(key, since), self.state(key, until)
            if not within or (before is None and after is None):
                continue
            if after is None:
                assert before is not None
                found.add(("delete", *shown(before, wanted)), True)
            elif before is None:
                found.add(("insert", *shown(after, wanted)), True)
            else:
                found.add(("update", *shown(after, wanted)), any(map(self._shows, within)))
        return found

    def history(self, columns: Sequence[str], since: int, until: int) -> Changes:
        """(change, timestamp, columns...) of all changes, by key and time."""
        wanted = [self.schema.column(name) for name in columns]
        found = Changes()
        for key in sorted(self.versions):
            before: Row | None = None
            for version in self.versions[key]:
                if since < version.timestamp <= until:
                    change = "insert" if before is None else "delete" if version.row is None else "update"
                    row = version.row if version.row is not None else before
                    assert row is not None
                    found.add((change, version.timestamp, *shown(row, wanted)), self._shows(version))
                before = version.row
        return found

    def _shows(self, version: Version) -> bool:
        """An update of columns that have been dropped since is forgotten sooner or later."""
        return version.columns is None or any(c.id in version.columns for c in self.schema.columns)

    @property
    def timestamps(self) -> list[int]:
        """When anything happened, ascending."""
        return sorted({v.timestamp for versions in self.versions.values() for v in versions})


def shown(row: Row, columns: Iterable[ColumnSchema]) -> tuple[Any, ...]:
    """A row's values of some columns."""
    return tuple(row[c.id] if c.id in row else python(c, c.initial) for c in columns)


def python(column: ColumnSchema, physical: Any) -> Any:
    """A physical value as Python shows it."""
    return None if physical is None else column.type.to_python(physical)
