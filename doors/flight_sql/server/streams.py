"""Streams of batches, out to a client and in from one.

What comes in is checked in full before anything reads it: Arrow does not look at offsets and indices of a message, and
a wrong one is a read outside of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from ....errors import Cancelled, Error, ProtocolError
from ....model.abandoned import close_outside_collector
from ..session.reports import Refused, flight_error
from ..session.results import Result
from .call import Call

MOST_PARAMETER_BYTES: Final = 1 << 30
"""Of all rows of parameters of one DoPut."""


class ResultStream:
    """The batches of a result for DoGet; closed when Flight releases it, whether it was read or not.

    Raises `Refused` if there are too many streams.
    """

    def __init__(self, call: Call, result: Result):
        self._result = result
        self._calls = call.host.calls
        self._key: object | None = None
        self._key = self._calls.enter(call.context, result.halt)

    def __iter__(self) -> ResultStream:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._result)
        except StopIteration:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise flight_error(error) from None

    def close(self) -> None:
        """Ends the statement."""
        key, self._key = self._key, None
        if key is not None:
            self._calls.leave(key)
            self._result.close()

    def __del__(self) -> None:
        close_outside_collector(self.close)


class ReceivedRows:
    """The batches that a client sends by DoPut.

    A client that dies in the middle looks like one that has sent everything, except that its call is cancelled. So the
    end of the stream is an error then: nothing of it is written.
    """

    def __init__(self, call: Call, reader: Any):
        self._call = call
        self._reader = reader
        try:
            self.schema: pa.Schema = reader.schema
        except pa.ArrowException as error:
            raise ProtocolError(f"the stream has no schema: {error}") from None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while True:
            try:
                batch = self._reader.read_chunk().data
            except StopIteration:
                if self._call.context.is_cancelled():
                    raise Cancelled("the client has gone before the end of its rows") from None
                raise
            except (pa.ArrowException, OSError) as error:
                raise _broken(self._call, error) from None
            if batch is not None:
                self._call.note(batch.nbytes)
                return checked(batch)


def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch. Raises `ProtocolError` if its buffers are not what its types say."""
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise ProtocolError(f"the rows are not valid Arrow data: {error}") from None
    return batch


def _broken(call: Call, error: Exception) -> Error:
    if call.context.is_cancelled():
        return Cancelled("the client has gone before the end of its rows")
    return ProtocolError(f"the stream cannot be read: {error}")


class BoundRows:
    """The rows of parameters that a client sends by DoPut."""

    def __init__(self, call: Call, reader: Any):
        self._rows = ReceivedRows(call, reader)

    def all(self) -> pa.RecordBatch:
        """All rows as one batch. Raises `Refused` if they are too large."""
        found: list[pa.RecordBatch] = []
        size = 0
        for batch in self._rows:
            size += batch.nbytes
            if size > MOST_PARAMETER_BYTES:
                raise Refused(
                    f"the parameters have more than {MOST_PARAMETER_BYTES >> 20} MiB; CommandStatementIngest loads "
                    "any number of rows",
                    "54000",
                )
            found.append(batch)
        if len(found) == 1:
            return found[0]
        table = pa.Table.from_batches(found, self._rows.schema).combine_chunks()
        batches = table.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], self._rows.schema)
