"""Errors of rows that `op_resolution` refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import AlreadyPresent, ImmutableColumn, IntegrityError, NotFound, NotNullViolation
from ...model.keys.keys import Keys
from ...model.schema import Table
from ...model.store import RowError
from ...model.vectors.vector import Array
from .incoming_rows import describe_key, missing_column
from .op_resolution import Given, Refusal


def refused_rows(
    table: Table, given: Sequence[Given], keys: Keys, refusals: Array, present: Array, numbers: Array
) -> list[RowError]:
    """The errors of the refused rows, ascending.

    Parameters
    ----------
    table : Table
    given : sequence of Given
        Per column of the table: which rows give it.
    keys : Keys
    refusals : ndarray of uint8, shape (n_rows,)
        Codes of `Refusal`.
    present : ndarray of bool, shape (n_rows,)
        Which rows' keys were there before the batch.
    numbers : ndarray of intp, shape (n_rows,)
        The row numbers in the whole batch.
    """
    return [
        RowError(int(numbers[row]), _error(table, given, keys, row, int(refusals[row]), bool(present[row]), numbers))
        for row in np.flatnonzero(refusals).tolist()
    ]


def _error(
    table: Table, given: Sequence[Given], keys: Keys, row: int, refusal: int, present: bool, numbers: Array
) -> IntegrityError:
    if refusal == Refusal.INCOMPLETE:
        name, number = missing_column(table, given, row), numbers[row]
        return NotNullViolation(
            f"column {name} of table {table.name} is NOT NULL and has no default; row {number + 1} leaves it out"
        )
    key = describe_key(table, keys.values_at(row))
    if refusal == Refusal.NOT_FOUND:
        return NotFound(f"no row with key {key} is in table {table.name}")
    if refusal == Refusal.IMMUTABLE:
        return ImmutableColumn(
            f"column {_immutable_column(table, given, row)} of table {table.name} is IMMUTABLE; "
            f"the row with key {key} keeps its value"
        )
    if present:
        return AlreadyPresent(f"a row with key {key} is in table {table.name} already")
    return AlreadyPresent(f"key {key} is twice among the rows for table {table.name}")


def _immutable_column(table: Table, given: Sequence[Given], row: int) -> str:
    columns = zip(table.schema.columns, given)
    return next(c.name for c, mask in columns if c.immutable and (mask if isinstance(mask, bool) else mask[row]))
