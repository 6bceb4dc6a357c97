"""The short road of `executemany`: rows of Python parameters become the columns of one Arrow batch.

Parsing and binding a statement costs a hundred times what writing its row does, so `INSERT INTO t VALUES (?, ?)` (or
UPSERT) with many rows is bound once, and each chunk of rows is one `WriteBatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from ...errors import DataError, InterfaceError
from ...executor.given_values import column_from_arrow, column_from_values
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Op, WriteBatch
from ...model.types import DataType
from ...model.waiting_time import as_statement
from ...sql import ParsedStatement, bound
from ...sql.expressions import Expr, Literal
from ...sql.syntax import nodes
from .bind_values import Normalized, normalize

if TYPE_CHECKING:
    from .session import Session

CHUNK_ROWS = 1 << 14
"""Rows per write: the batch is large enough to hide its fixed costs, small enough to be logged as one record."""
ARROW_CHUNK_ROWS = 1 << 16
"""The same for rows that are in columns already."""

Slot: TypeAlias = int | str | None
"""Which parameter a cell of VALUES takes: by position, by name; None for a constant."""


@dataclass(frozen=True, slots=True)
class InsertTemplate:
    """An INSERT or UPSERT of one row of parameters and constants, bound: what each column of the batch is filled
    with."""

    table: Table
    op: Op
    columns: tuple[str, ...]
    slots: tuple[Slot, ...]
    constants: tuple[Any, ...]
    """Python values, None where the slot is a parameter."""

    def batch(self, rows: Sequence[Normalized], first: int) -> pa.RecordBatch:
        """The Arrow batch of these parameter rows, before which there were `first`; raises as `column_from_values`."""
        arrays = []
        for name, slot, constant in zip(self.columns, self.slots, self.constants):
            type_ = self.table.schema.column(name).type
            values = [constant] * len(rows) if slot is None else [row[slot] for row in rows]  # type: ignore[index]
            arrays.append(column_from_values(type_, values, name, first))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def batch_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The Arrow batch of parameters in columns, by position; raises `DataError` for a value that does not fit."""
        arrays = []
        for name, slot, constant in zip(self.columns, self.slots, self.constants):
            type_ = self.table.schema.column(name).type
            if isinstance(slot, int):
                arrays.append(_converted(rows.column(slot), type_, name))
            else:
                arrays.append(column_from_values(type_, [constant] * rows.num_rows, name))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _converted(array: pa.Array, type_: DataType, name: str) -> pa.Array:
    try:
        return column_from_arrow(array, type_)
    except DataError as error:
        raise type(error)(f"column {name}: {error}") from error


def insert_rows(
    session: Session,
    text: str,
    rows: Sequence[Normalized | None],
    check: Callable[[], None],
) -> int | None:
    """Run an INSERT or UPSERT once per row of parameters, in large batches, each of which is written whole or not.

    Returns how many rows it wrote, or None, with nothing done, where `text` is no `... VALUES` of one row of
    parameters and constants. The values of a chunk are converted before any of its rows is written. `check` is called
    before each chunk; what it raises ends the work.
    """
    parsed = session.parse(text)
    version = session.plans.version
    template = _template(session, parsed, rows[0]) if rows else None
    if template is None:
        return None
    _check_shapes(rows)
    known = {version: template}

    def bound_now() -> InsertTemplate:
        version = session.plans.version
        if version not in known:
            anew = _template(session, parsed, rows[0])
            assert anew is not None, "the text decides whether there is a template"
            known[version] = anew
        return known[version]

    written = 0
    for start in range(0, len(rows), CHUNK_ROWS):
        check()
        chunk = rows[start : start + CHUNK_ROWS]
        with as_statement():
            written += session.bound_again(partial(_chunk, session, bound_now, chunk, start))
    return written


def insert_arrow(session: Session, text: str, rows: pa.RecordBatch, check: Callable[[], None]) -> int | None:
    """`insert_rows` for parameters that are columns of an Arrow batch, which become columns of the table directly.

    The rows are written in chunks, as those of `insert_rows`; a caller that needs all or none begins a transaction.
    """
    if not rows.num_rows:
        return None
    parsed = session.parse(text)
    first = normalize([column[0].as_py() for column in rows.columns])

    def template_now() -> InsertTemplate | None:
        return _template(session, parsed, first)

    template = template_now()
    if template is None or any(isinstance(slot, str) for slot in template.slots):
        return None

    def write(chunk: pa.RecordBatch, start: int) -> int:
        anew = template_now()
        assert anew is not None, "the text decides whether there is a template"
        return _write(session, anew, anew.batch_of(chunk), start)

    written = 0
    for start in range(0, rows.num_rows, ARROW_CHUNK_ROWS):
        check()
        with as_statement():
            written += session.bound_again(partial(write, rows.slice(start, ARROW_CHUNK_ROWS), start))
    return written


def _chunk(
    session: Session,
    bound_now: Callable[[], InsertTemplate],
    chunk: Sequence[Normalized | None],
    start: int,
) -> int:
    """Write some rows, all or none; how many were written."""
    template = bound_now()
    try:
        batch = template.batch(chunk, start)  # type: ignore[arg-type]
    except (DataError, InterfaceError) as error:
        row = start + getattr(error, "row", 0)
        error.add_note(
            f"in row {row + 1} of the parameters; none of the {len(chunk)} rows of this batch was written, the {start} "
            "rows before them were"
        )
        raise
    return _write(session, template, batch, start)


def _write(session: Session, template: InsertTemplate, batch: pa.RecordBatch, first: int) -> int:
    with session.turn():  # without autocommit, it begins a transaction
        result = session.store.write(template.table, WriteBatch(batch, template.op, all_or_none=True))
    if result.errors:
        refused = min(result.errors, key=lambda error: error.row)
        refused.error.add_note(
            f"in row {first + refused.row + 1} of the parameters; {len(result.errors)} of {batch.num_rows} rows in "
            f"this batch were refused and none was inserted, the {first} rows before them were"
        )
        raise refused.error
    if result.applied:
        session.note_write()
    return result.applied


def _template(session: Session, parsed: Sequence[ParsedStatement], first: Normalized | None) -> InsertTemplate | None:
    if len(parsed) != 1 or first is None:
        return None
    slots = _slots(parsed[0].tree)
    if slots is None:
        return None
    # Binding with the first row's values checks table, columns and the number of parameters.
    statement = session.bind(parsed[0], first)
    if not isinstance(statement, bound.InsertStatement) or not isinstance(statement.query.body, bound.Values):
        return None
    cells = statement.query.body.rows[0]
    # Binding has put the defaults of unlisted columns behind the listed ones.
    slots += (None,) * (len(cells) - len(slots))
    if any(slot is None and not isinstance(cell, Literal) for slot, cell in zip(slots, cells)):
        return None
    constants = tuple(_constant(cell) if slot is None else None for slot, cell in zip(slots, cells))
    return InsertTemplate(statement.table, statement.op, statement.columns, slots, constants)


def _constant(cell: Expr) -> Any:
    assert isinstance(cell, Literal)
    return cell.type.to_python(cell.value)


def _slots(tree: Any) -> tuple[Slot, ...] | None:
    """Source of each cell's value in `VALUES (...)`; None for any other statement, or several rows."""
    values = tree.args.get("expression") if isinstance(tree, exp.Insert | nodes.Upsert) else None
    if not isinstance(values, exp.Values) or len(values.expressions) != 1:
        return None
    row = values.expressions[0]
    cells = row.expressions if isinstance(row, exp.Tuple) else [row.unnest()]
    slots = tuple(_slot_of(cells))
    parameters = sum(1 for _ in tree.find_all(exp.Placeholder, exp.Parameter))
    # A parameter inside an expression, `? + 1`, is not a slot: that statement takes the fallback.
    return slots if parameters == sum(slot is not None for slot in slots) else None


def _slot_of(cells: Sequence[Any]) -> Iterator[Slot]:
    question_marks = 0
    for cell in cells:
        if isinstance(cell, exp.Parameter):
            yield int(cell.this.name) - 1
        elif not isinstance(cell, exp.Placeholder):
            yield None
        elif cell.this:
            yield str(cell.this)
        else:
            yield question_marks
            question_marks += 1


def _check_shapes(rows: Sequence[Normalized | None]) -> None:
    """All rows must hold the parameters that the first one was bound with."""
    first = rows[0]
    for number, row in enumerate(rows, 1):
        if isinstance(first, dict):
            missing = set(first) - set(row if isinstance(row, dict) else ())
            if missing:
                raise InterfaceError(f"row {number} of the parameters lacks :{min(missing)}")
        elif not isinstance(row, tuple) or len(row) != len(first or ()):
            held = "names" if isinstance(row, dict) else f"{len(row or ())} values"
            raise InterfaceError(f"row {number} of the parameters has {held}, the first one {len(first or ())} values")
