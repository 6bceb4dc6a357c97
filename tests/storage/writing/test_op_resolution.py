"""Result of a batch of ops, compared with applying them one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.keys.keys import Keys
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, Table, assign_column_ids
from nyala.model.store import Op, WriteBatch
from nyala.model.types import BIGINT, INT
from nyala.storage.writing.incoming_rows import incoming, incomplete_rows, row_errors, rows_without
from nyala.storage.writing.op_resolution import OpBatch, Refusal, Resolution, resolve_ops
from store_model import TableModel, Version

SCHEMA = Schema(
    assign_column_ids(
        (
            ColumnSchema("k", BIGINT, nullable=False),
            ColumnSchema("free", INT),
            ColumnSchema("filled", INT, nullable=False, default=-7),
            ColumnSchema("needed", INT, nullable=False),
            ColumnSchema("fixed", INT, immutable=True),
        )
    ),
    1,
)
TABLE = Table("t000001", "t", SCHEMA, PartitionSchema(), next_column_id=5)
VALUES = [column.name for column in SCHEMA.columns[1:]]
NAMES = {
    Refusal.ALREADY_PRESENT: "AlreadyPresent",
    Refusal.NOT_FOUND: "NotFound",
    Refusal.IMMUTABLE: "ImmutableColumn",
    Refusal.INCOMPLETE: "NotNullViolation",
}

cells = st.one_of(st.none(), st.integers(0, 99))


@st.composite
def rows(draw) -> tuple[list[Op], list[dict[str, Any]]]:
    count = draw(st.integers(1, 12))
    ops = draw(st.lists(st.sampled_from(list(Op)), min_size=count, max_size=count))
    columns = draw(st.sets(st.sampled_from(VALUES)))
    given_rows = []
    for _ in range(count):
        row: dict[str, Any] = {"k": draw(st.integers(0, 3))}
        row |= {name: draw(cells) for name in VALUES if name in columns and draw(st.integers(0, 3))}
        given_rows.append(row)
    return ops, given_rows


def to_batch(ops: list[Op], given_rows: list[dict[str, Any]]) -> WriteBatch:
    names = [name for name in VALUES if any(name in row for row in given_rows)]
    columns = {"k": pa.array([row["k"] for row in given_rows], pa.int64())}
    columns |= {name: pa.array([row.get(name, 55) for row in given_rows], pa.int32()) for name in names}
    isset = {name: np.array([name in row for row in given_rows]) for name in names}
    return WriteBatch(pa.record_batch(columns), np.array(ops, np.uint8), isset=isset)


def resolved(batch: WriteBatch, present: set[int]) -> tuple[Resolution, pa.RecordBatch, dict[int, str]]:
    """The resolution of the rows without errors of their own, these rows, and all errors by row of the batch."""
    whole = incoming(TABLE, batch)
    errors = {error.row: type(error.error).__name__ for error in row_errors(TABLE, whole)}
    numbers = rows_without(len(whole), row_errors(TABLE, whole))
    sound = whole.take(numbers)
    ops = OpBatch(
        Keys.from_rows(SCHEMA, sound.rows),
        sound.ops,
        sound.given[1:],
        [column.immutable for column in SCHEMA.columns[1:]],
        incomplete_rows(TABLE, sound.given, len(sound)),
    )
    there = np.array([key in present for key in sound.rows.column(0).to_pylist()], np.bool_)
    found = resolve_ops(ops, there)
    errors |= {int(numbers[row]): NAMES[found.refusals[row]] for row in np.flatnonzero(found.refusals).tolist()}
    return found, sound.rows, errors


def after(found: Resolution, given_rows: pa.RecordBatch, before: dict[int, dict[int, Any]]) -> dict[int, Any]:
    """The table after the net changes, each of which must fit what was there."""
    table = {key: dict(row) for key, row in before.items()}
    keys = given_rows.column(0).to_pylist()
    values = {column.id: given_rows.column(column.name).to_pylist() for column in SCHEMA.columns[1:]}
    for place, row in enumerate(found.inserts.tolist()):
        assert keys[row] not in before
        sources = dict(zip(values, found.insert_sources))
        table[keys[row]] = {0: keys[row]} | {c: values[c][sources[c][place]] for c in values}
    for place, row in enumerate(found.updates.tolist()):
        new = {c: values[c][s[place]] for c, s in zip(values, found.update_sources) if s[place] >= 0}
        assert new
        table[keys[row]] |= new
    for row in found.deletes.tolist():
        del table[keys[row]]
    changed = [keys[row] for row in (*found.inserts, *found.updates, *found.deletes)]
    assert len(set(changed)) == len(changed)
    assert (np.diff(found.inserts) > 0).all()
    return table


@settings(max_examples=examples(300), deadline=None)
@given(st.sets(st.integers(0, 3)), rows())
def test_a_batch_comes_to_what_its_rows_come_to_one_by_one(present, batch):
    ops, given_rows = batch
    before = {key: {0: key, 1: 1, 2: 2, 3: 3, 4: 4} for key in present}
    model = TableModel(SCHEMA)
    model.versions = {(key,): [Version(1, row)] for key, row in before.items()}
    expected = model.resolve(ops, given_rows)
    found, sound, errors = resolved(to_batch(ops, given_rows), present)
    assert errors == expected.errors
    table = before | {key: row for (key,), row in expected.changes.items()}
    assert after(found, sound, before) == {key: row for key, row in table.items() if row is not None}
    says_nothing = [
        row
        for row, (op, cells) in enumerate(zip(ops, given_rows))
        if op in (Op.UPDATE, Op.UPDATE_IGNORE, Op.UPSERT, Op.UPSERT_IGNORE) and not cells.keys() - {"k", "fixed"}
    ]
    assert expected.applied - len(says_nothing) <= found.applied <= expected.applied


def test_a_row_that_could_not_be_inserted_leaves_its_key_as_it_was():
    ops = [Op.INSERT, Op.UPSERT, Op.UPDATE, Op.INSERT, Op.UPSERT]
    given_rows = [{"k": 1}, {"k": 1, "free": 3}, {"k": 1, "free": 4}, {"k": 1, "needed": 5}, {"k": 1, "free": 6}]
    found, _, errors = resolved(to_batch(ops, given_rows), set())
    assert errors == {0: "NotNullViolation", 1: "NotNullViolation", 2: "NotFound"}
    assert (found.inserts.tolist(), found.insert_sources[0].tolist(), found.applied) == ([4], [4], 2)


def test_what_comes_and_goes_within_a_batch_is_nothing():
    ops = [Op.INSERT, Op.UPDATE, Op.DELETE]
    given_rows = [{"k": 1, "needed": 5}, {"k": 1, "free": 3}, {"k": 1}]
    found, _, errors = resolved(to_batch(ops, given_rows), set())
    assert not errors
    assert found.applied == 3
    assert not len(found.inserts) + len(found.updates) + len(found.deletes)
