"""Statements that change rows, with the parameters of one row or of many.

    INSERT INTO t VALUES (?, ?), 10,000 rows ──► columns of Arrow become columns of the table, one write
    any other statement, 10,000 rows          ──► run for each row, in one transaction

All rows of one DoPut are written, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from ....driver.connection import Connection
from ....driver.session.executions import Halt, raise_if
from ....driver.session.insert_batches import ARROW_CHUNK_ROWS, insert_arrow
from .prepared import rows_of
from .reports import Refused


def run_update(connection: Connection, text: str, halt: Halt) -> int:
    """Runs a text without parameters, and discards its rows, if any; the number of changed rows.

    It is 0 for a statement such as CREATE TABLE: by -1 the JDBC driver would take it for a query, and run it again.
    """
    execution = connection.session.run(text, None, halt)
    execution.drain()
    return max(0, execution.rowcount)


def run_rows(connection: Connection, text: str, values: pa.RecordBatch, parameters: int, halt: Halt) -> int:
    """Runs a statement for each row of parameters; the number of changed rows.

    Raises `Refused` if the rows do not have as many columns as the statement has parameters.
    """
    if values.num_columns != parameters:
        raise Refused(f"the statement has {parameters} parameters, and the rows have {values.num_columns}", "08P01")
    session = connection.session
    check = partial(raise_if, halt)
    with session.watched(halt), _together(connection, values.num_rows > ARROW_CHUNK_ROWS):
        written = insert_arrow(session, text, values, check)
    if written is not None:
        return written
    with session.watched(halt), _together(connection, values.num_rows > 1):
        return sum(_run_each(connection, text, values, check, halt))


def _run_each(
    connection: Connection, text: str, values: pa.RecordBatch, check: Callable[[], None], halt: Halt
) -> Iterator[int]:
    for row in rows_of(values):
        check()
        execution = connection.session.run(text, row, halt)
        execution.drain()
        yield max(0, execution.rowcount)


@contextmanager
def _together(connection: Connection, needed: bool) -> Iterator[None]:
    """A transaction of its own if one is needed and none is in progress, or will be by the first statement."""
    if not needed or connection.in_transaction or not connection.autocommit:
        yield
        return
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
