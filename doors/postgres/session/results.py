"""The result of a statement as bytes: its rows while they are made, and the tag of the command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from ....driver.session.executions import Execution, RowExecution
from ....sql.expressions import Column
from ..values.columns import cast_array
from ..values.rows import EncodedRows, encode_rows, pieces
from ..values.single_rows import encode_row
from .portals import Portal
from .statements import StatementText


class RowWriter:
    """Rows of an execution as messages.

    Parameters
    ----------
    columns : sequence of Column
        Those reported to the client.
    formats : sequence of int
        One for each of them.
    """

    def __init__(self, columns: Sequence[Column], formats: Sequence[int]):
        self._types = [column.type for column in columns]
        self._formats = formats
        self.count = 0
        """Number of rows so far."""

    def write(self, portal: Portal, limit: int = 0) -> Iterator[bytes]:
        """Yields the messages of a portal's next rows: all, or `limit` of them. After the last row
        `portal.is_done` is True."""
        execution = portal.execution
        assert execution is not None
        if isinstance(execution, RowExecution):
            yield from self._single(portal, execution)
            return
        self.count = 0
        while not limit or self.count < limit:
            if portal.rest is None:
                batch = execution.next_batch()
                if batch is None:
                    portal.is_done = True
                    return
                batch = self._converted(batch, execution.columns or ())
                if not limit or batch.num_rows <= limit - self.count:
                    self.count += batch.num_rows
                    for piece in pieces(batch):
                        yield encode_rows(piece, self._types, self._formats)
                    continue
                portal.rest = EncodedRows(batch, self._types, self._formats)
            messages, count = portal.rest.take(limit - self.count if limit else portal.rest.count)
            self.count += count
            if not portal.rest.count:
                portal.rest = None
            yield messages

    def _single(self, portal: Portal, execution: RowExecution) -> Iterator[bytes]:
        found = execution.next_rows()
        self.count = 0
        if found is not None:
            self.count = len(found[0])
            # A row by its key has the columns of its table, whose types do not depend on values.
            yield b"".join(encode_row(row, self._types, self._formats) for row in found[0])
        portal.is_done = True

    def _converted(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
        """The batch with the types reported to the client: those of expressions depend on parameters' values."""
        if all(column.type == type_ for column, type_ in zip(columns, self._types)):
            return batch
        arrays = [
            array if column.type == type_ else cast_array(type_, column.type, array)
            for array, column, type_ in zip(batch.columns, columns, self._types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


_COUNTED: Final = {"INSERT": "INSERT 0", "UPSERT": "INSERT 0", "UPDATE": "UPDATE", "DELETE": "DELETE", "MERGE": "MERGE"}
_NAMED: Final = ("SHOW", "EXPLAIN", "SET", "RESET", "SAVEPOINT", "RELEASE", "ANALYZE", "PREPARE", "DESCRIBE")
_RIGHTS: Final = re.compile(r"\sON\s", re.I)
"""Of a GRANT or REVOKE: rights on objects, and not roles."""
_FILLERS: Final = ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNIQUE", "IF", "NOT", "EXISTS")


def command_tag(statement: StatementText, execution: Execution, rows: int) -> str:
    """The tag of CommandComplete; `rows` is the number of rows that were sent."""
    verb = statement.words[0] if statement.words else ""
    if verb in _COUNTED:
        return f"{_COUNTED[verb]} {rows if execution.columns is not None else max(0, execution.rowcount)}"
    if verb in ("FETCH", "MOVE", "COPY"):
        return f"{verb} {rows if execution.columns is not None else max(0, execution.rowcount)}"
    if verb in _NAMED:
        return verb
    if execution.columns is not None:
        return f"SELECT {rows}"
    if verb == "TRUNCATE":
        return "TRUNCATE TABLE"
    if verb in ("GRANT", "REVOKE"):
        return verb if _RIGHTS.search(statement.text) else f"{verb} ROLE"
    if verb == "CREATE" and execution.rowcount >= 0:
        return f"SELECT {execution.rowcount}"  # CREATE TABLE AS, as PostgreSQL has it
    if verb == "WITH":
        return f"INSERT 0 {max(0, execution.rowcount)}"
    object_ = next((word for word in statement.words[1:] if word not in _FILLERS), "").replace("USER", "ROLE")
    return f"{verb} {object_}".strip() if verb in ("CREATE", "ALTER", "DROP", "COMPACT") else verb
