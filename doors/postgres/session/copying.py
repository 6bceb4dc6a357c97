"""The data of COPY, in both directions.

FROM STDIN: the client's data goes to a temporary file (in memory while it is short). Once it is complete, the rows are
loaded, all or none. So neither memory nor a thread waits for a slow client. Binary data is converted as it arrives,
and the file has Arrow batches, which the load maps into memory. TO STDOUT: rows are written as they are made.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from ....driver.connection import Connection
from ....driver.session.executions import Execution
from ....driver.session.identity import require_insert
from ....errors import Cancelled, DataError, Error, UnknownColumn
from ....model.schema import Table
from ....model.types import DataType
from ....sql import bound
from ....sql.written_identifiers import name_parts, qualified
from ....storage.files.spill_file import Extent, SpillFile
from ..protocol import replies
from ..values.copy_binary import HEADER, TRAILER, BinaryRows
from ..values.copy_text import csv_header, csv_rows, read_text, text_rows
from ..values.rows import COPY_DATA, encode_rows, pieces
from ..values.types import BINARY_FORMAT
from .copy_syntax import CopyStatement, folded

_IN_MEMORY: Final = 4 << 20
_NEED: Final = "COPY needs it for its data; set temp_directory to another place"


class CopyIn:
    """The data of one COPY FROM STDIN.

    Parameters
    ----------
    connection : Connection
    statement : CopyStatement

    Raises `UnknownTable` or `UnknownColumn`.
    """

    def __init__(self, connection: Connection, statement: CopyStatement):
        self._connection = connection
        self._statement = statement
        self._table: Table = connection.store.table(connection.session.stored_name(name_parts(statement.table)))
        require_insert(connection.session, self._table)
        schema = self._table.schema
        names = [folded(name) for name in statement.columns] or [column.name for column in schema.visible_columns]
        for name in names:
            if name not in schema:
                raise UnknownColumn(f"column {name} of table {self._table.name} does not exist")
        self._names = names
        folder = connection.store.temporary_directory
        self._binary = _BinaryData(names, self._types, folder) if statement.is_binary else None
        self._file: Any
        if self._binary is not None:
            self._file = self._binary
        elif statement.format == "csv":
            # Read by the reader of all CSV files, which takes a path.
            self._file = tempfile.NamedTemporaryFile(prefix="nyala-copy-", suffix=".csv", dir=folder)  # noqa: SIM115
        else:
            self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=folder)  # noqa: SIM115
        self.failure: str | None = None
        """The reason for which the client has abandoned it."""
        self.is_complete = False

    @property
    def column_count(self) -> int:
        """Number of columns of the data."""
        return len(self._names)

    def feed(self, data: bytes) -> None:
        """Adds data of the client."""
        self._file.write(data)

    def close(self) -> None:
        """Discards the data."""
        self._file.close()

    def load(self, cancel: threading.Event) -> int:
        """Loads the rows; how many there were. Raises `Cancelled` if the client has abandoned it."""
        if self.failure is not None:
            raise Cancelled(f"COPY from stdin failed: {self.failure}")
        with self._file:
            if self._statement.format == "csv":
                return self._load_csv()
            name = qualified(self._table.namespace, self._table.local_name)
            return self._connection.load(name, self._batches(), cancel=cancel)

    @property
    def _types(self) -> list[DataType]:
        return [self._table.schema.column(name).type for name in self._names]

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._binary is not None:
            return self._binary.batches()
        statement = self._statement
        self._file.seek(0)
        return read_text(self._file, self._names, self._types, statement.delimiter, statement.null, statement.header)

    def _load_csv(self) -> int:
        statement = self._statement
        self._file.flush()
        if not self._file.tell():
            return 0
        options = {
            "delimiter": statement.delimiter,
            "null": statement.null,
            "quote": statement.quote,
            "escape": statement.escape,
            "header": statement.header,
        }
        path = self._file.name
        copy = bound.CopyFrom(self._table, path, "csv", tuple(options.items()), tuple(self._names))
        session = self._connection.session
        require_insert(session, self._table)  # the data may have taken long
        try:
            with session.turn():
                return max(0, session.start(copy).rowcount)
        except DataError as error:
            raise type(error)(str(error).replace(path, "COPY data")) from None


class _BinaryData:
    """Binary data of COPY as batches: in a temporary file, except for the last block.

    The first error is kept for `batches`, and what follows it is ignored: clients read the response when they have sent
    all data.

    Parameters
    ----------
    names : sequence of str
        Of the columns.
    types : sequence of DataType
        Of the columns.
    folder : str, optional
        For the temporary file.
    """

    def __init__(self, names: Sequence[str], types: Sequence[DataType], folder: str | None):
        self._rows = BinaryRows(names, types)
        self._folder = folder
        self._file: SpillFile | None = None
        self._extents: list[Extent] = []
        self._error: Error | None = None

    def __enter__(self) -> _BinaryData:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Adds data of the client."""
        if self._error is not None:
            return
        try:
            for batch in self._rows.feed(data):
                if self._file is None:
                    self._file = SpillFile(self._folder, _NEED)
                self._extents.append(self._file.write(batch))
        except Error as error:
            self._error = error
            self.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows. Raises `DataError` if the data is malformed, `DiskError` if the temporary file failed."""
        if self._error is not None:
            raise self._error
        last = list(self._rows.finish())
        if self._file is not None:
            yield from map(self._file.map, self._extents)
        yield from last

    def close(self) -> None:
        """Discards the data."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def copy_out(execution: Execution, statement: CopyStatement) -> Generator[bytes, None, int]:
    """Yields the messages of COPY TO STDOUT, up to CopyDone; returns the number of rows."""
    columns = execution.columns or ()
    types = [column.type for column in columns]
    yield replies.copy_response(b"H", statement.is_binary, len(columns))
    rows = 0
    header = HEADER if statement.is_binary else b""
    if statement.header and not statement.is_binary:
        names = [column.name for column in columns]
        line = csv_header(names, statement.delimiter, statement.quote, statement.escape)
        yield replies.copy_data(
            (line if statement.format == "csv" else statement.delimiter.join(names)).encode() + b"\n"
        )
    formats = [BINARY_FORMAT] * len(columns)
    while (batch := execution.next_batch()) is not None:
        rows += batch.num_rows
        for piece in pieces(batch):
            if statement.is_binary:
                yield _behind(header, encode_rows(piece, types, formats, COPY_DATA))
                header = b""
            elif statement.format == "csv":
                yield csv_rows(piece, types, statement.delimiter, statement.null, statement.quote, statement.escape)
            else:
                yield text_rows(piece, types, statement.delimiter, statement.null)
    if statement.is_binary:
        yield replies.copy_data(header + TRAILER)
    yield replies.COPY_DONE
    return rows


def _behind(header: bytes, messages: bytes) -> bytes:
    """Messages, the first of which begins with the header: drivers read it there, as PostgreSQL sends it."""
    if not header or not messages:
        return messages
    size = int.from_bytes(messages[1:5], "big") + len(header)
    return b"".join((COPY_DATA, size.to_bytes(4, "big"), header, messages[5:]))
