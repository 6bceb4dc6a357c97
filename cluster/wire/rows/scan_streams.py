"""The stream of a scan: from batches to messages at the server, from messages to batches at the caller.

    server   iterator of Batch ... ScanEnd ──► ScanMessages ──► Flight's do_get
    caller   Flight's reader ──► ScanStream ──► Batch ..., then `end`

Each message is a record batch of one row with one column of bytes (so that they are sent without a copy), its head in
the metadata. The last message has the scan's result: a `ScanEnd`, or an error with its attributes.

A scan may begin with a call (`messages.methods.StartScan`); `StartedScan` reads its reply as `ScanStream` does a
stream.

gRPC requests the next message only when the reader has taken enough of the previous ones. A scan without such a request
for a minute is cancelled: its iterator is closed, which frees its memory, and a reader that returns later gets
`ScannerExpired`.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyarrow import flight

from .... import errors
from ....model.abandoned import close_outside_collector
from ....model.clock import HybridClock
from ....model.forks import stay_with_process
from ....model.vectors.vector import Batch
from ...decoders import msgpack_decoder
from ..faults import FAULTS
from ..messages.envelope import ErrorBody, note_server
from ..messages.errors import error_of_server, error_to_body, raised_by_flight
from ..messages.methods import ScanEnd, ScanStart
from ..messages.value_count import check_value_count
from ..process.server_threads import Failed, server_thread
from .batches import BatchDecoder, BatchEncoder, DictionaryHead, PartHead
from .small_batches import batch_of

STREAM_SCHEMA = pa.schema([pa.field("data", pa.large_binary())])


class EndHead(Struct, frozen=True, array_like=True, tag=3):
    """The last message: the scan's result, and the server's clock and id."""

    clock: int
    server: str
    end: ScanEnd | None
    error: ErrorBody | None = None


_encoder = msgspec.msgpack.Encoder()
_head_decoder = msgpack_decoder(DictionaryHead | PartHead | EndHead)
_NO_BYTES = pa.py_buffer(b"")

ScanItems = Iterator[Batch | ScanEnd]


class ScanMessages:
    """The messages of one scan, for Flight. Closed when Flight releases it, whether it was ever read or not.

    Parameters
    ----------
    begin : callable
        Starts the scan: returns its iterator and a check that raises if the call has no waiting caller any more. Called
        with the first message.
    finished : callable
        Called once, when the scan holds no memory any more: at its end, or when it is cancelled.
    closed : callable
        Called once, when the stream has ended.
    """

    def __init__(
        self,
        begin: Callable[[], tuple[ScanItems, Callable[[], None]]],
        clock: HybridClock,
        server_id: str,
        finished: Callable[[], None],
        closed: Callable[[], None],
    ):
        self._begin = begin
        self._clock = clock
        self._server_id = server_id
        self._finished: Callable[[], None] | None = finished
        self._closed: Callable[[], None] | None = closed
        # Held while the iterator works; guards everything below.
        self._lock = threading.Lock()
        self._items: ScanItems | None = None
        self._check: Callable[[], None] = lambda: None
        self._encoder = BatchEncoder()
        self._ready: Iterator[tuple[Any, pa.Buffer]] = iter(())
        self._failed: errors.Error | None = None
        self._is_over = False
        self.last_asked = time.monotonic()
        stay_with_process(self)

    def __iter__(self) -> ScanMessages:
        return self

    def __next__(self) -> tuple[pa.RecordBatch, bytes]:
        with self._lock:
            if self._is_over:
                raise StopIteration
            head, data = self._following()
            self.last_asked = time.monotonic()
        return _as_row(data), _padded(_encoder.encode(head), data.size)

    def _following(self) -> tuple[Any, pa.Buffer]:
        try:
            if self._failed is not None:
                raise self._failed
            while True:
                message = next(self._ready, None)
                if message is not None:
                    return message
                item = self._next_item()
                if isinstance(item, ScanEnd):
                    self._is_over = True
                    self._close_items()
                    return EndHead(self._clock.now(), self._server_id, item), _NO_BYTES
                self._ready = self._encoder.encode(item)
        except Exception as error:
            self._is_over = True
            self._close_items()
            return EndHead(self._clock.now(), self._server_id, None, error_to_body(error)), _NO_BYTES

    def _next_item(self) -> Batch | ScanEnd:
        if self._items is None:
            self._items, self._check = self._begin()
        self._check()
        item = next(self._items, None)
        if item is None:
            raise errors.InternalError("a scan ended without a result")
        return item

    def _close_items(self) -> None:
        items, self._items = self._items, None
        self._ready = iter(())
        close = getattr(items, "close", None)
        if close is not None:
            close()

    def expire(self, before: float) -> None:
        """Cancels the scan if its last request was before that time (monotonic), unless it is working at this
        moment."""
        if self.last_asked >= before or not self._lock.acquire(blocking=False):
            return
        try:
            if self._failed is None and not self._is_over:
                self._failed = errors.ScannerExpired("the scan's stream was not read for too long")
                self._finish()
        finally:
            self._lock.release()

    def close(self) -> None:
        """Handles the end of the stream, for whatever reason."""
        with self._lock:
            self._is_over = True
            try:
                self._finish()
            finally:
                closed, self._closed = self._closed, None
                if closed is not None:
                    closed()

    def _finish(self) -> None:
        try:
            self._close_items()
        finally:
            finished, self._finished = self._finished, None
            if finished is not None:
                finished()

    def __del__(self) -> None:
        close_outside_collector(self.close)


class Expiries:
    """Cancels unread scans; one thread for all of them, while there are any."""

    def __init__(self, idle_seconds: float, failed: Failed | None = None):
        self._idle_seconds = idle_seconds
        self._failed = failed
        # Guards the three below, and is notified of changes.
        self._changed = threading.Condition()
        self._scans: weakref.WeakSet[ScanMessages] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def watch(self, scan: ScanMessages) -> None:
        """Watches a scan for as long as it lives."""
        with self._changed:
            self._scans.add(scan)
            if self._thread is None and not self._is_closed:
                self._thread = server_thread("nyala-scan-expiry", self._run, self._failed)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, self._idle_seconds / 4)
                scans = list(self._scans)
                if self._is_closed or not scans:
                    self._thread = None
                    return
            for scan in scans:
                scan.expire(time.monotonic() - self._idle_seconds)
            del scans, scan

    def close(self) -> None:
        """Stops watching."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()


def _padded(head: bytes, data_size: int) -> bytes:
    """Returns the head, followed by zero bytes and preceded by their number, so that the data are aligned to eight
    bytes in the receiver's memory; otherwise wide values would have to be copied there.

    The receiver has the bytes of a message as they were sent (measured: from about 100 KB on): metadata, its length as
    a varint before it, and the body's length; the constant is the size of the fixed parts.
    """
    body_size = -(-data_size // 8) * 8 + 16
    for pad in range(8):
        size = 1 + len(head) + pad
        if (size + _varint_size(size) + _varint_size(body_size)) % 8 == 2:
            return bytes((pad,)) + head + bytes(pad)
    return b"\0" + head  # no padding fits if a varint grows by it


def _unpadded(data: pa.Buffer | None) -> memoryview:
    """Returns the head of `_padded`."""
    padded = memoryview(b"" if data is None else data)
    return padded[1 : len(padded) - padded[0]] if len(padded) > 1 else padded


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _as_row(data: pa.Buffer) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    column = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, data])
    return pa.RecordBatch.from_arrays([column], schema=STREAM_SCHEMA)


class ScanStream:
    """The batches of a scan at its caller; `end` is set after the last one. One thread reads it; any may close it.

    `batches` counts the server's batches that were received completely: the number to resume from. `failed` is called
    with an error of the connection, `refused` with one of the server.
    """

    def __init__(
        self,
        reader: flight.FlightStreamReader,
        address: str,
        clock: HybridClock,
        failed: Callable[[errors.Error], None],
        refused: Callable[[errors.Error], None] = lambda error: None,
    ):
        self._reader = reader
        self._address = address
        self._clock = clock
        self._failed = failed
        self._refused = refused
        self._decoder = BatchDecoder()
        self._parts: list[Batch] = []
        self._ready: deque[Batch] = deque()
        self._is_closed = False
        self.batches = 0
        self.end: ScanEnd | None = None
        stay_with_process(self)

    def __iter__(self) -> ScanStream:
        return self

    def __next__(self) -> Batch:
        while not self._ready:
            if self.end is not None:
                raise StopIteration
            if self._is_closed:
                raise errors.Cancelled(f"the scan at {self._address} has been closed")
            self._read()
        return self._ready.popleft()

    def _read(self) -> None:
        FAULTS.check(self._address)
        try:
            chunk = self._reader.read_chunk()
        except StopIteration:
            error = errors.ServerUnavailable(f"the scan at {self._address} was interrupted")
            self._failed(error)
            raise error from None
        except (pa.ArrowException, OSError, KeyError) as flown:
            error_ = raised_by_flight(flown, self._address)
            self._failed(error_)
            raise error_ from None
        try:
            plain = _unpadded(chunk.app_metadata)
            check_value_count(plain, "message of a scan")
            head = _head_decoder.decode(plain)
        except (msgspec.DecodeError, ValueError, RecursionError) as malformed:
            raise errors.ProtocolError(f"a malformed message of a scan was received: {malformed}") from None
        if isinstance(head, EndHead):
            self._take_end(head)
            return
        part = self._decoder.decode(head, chunk.data.column(0).buffers()[2])
        if part is not None:
            self._parts.append(part)
            if isinstance(head, PartHead) and head.is_last:
                self._ready.extend(self._parts)
                self._parts.clear()
                self.batches += 1

    def _take_end(self, head: EndHead) -> None:
        note_server(self._clock, head.clock, self._address)
        if head.error is not None:
            self._is_closed = True
            error = error_of_server(head.error, self._clock, self._address)
            self._refused(error)
            raise error
        if head.end is None:
            raise errors.ProtocolError(f"the scan at {self._address} ended with neither an end nor an error")
        self.end = head.end

    def close(self) -> None:
        """Stops reading; the server's scan ends."""
        if not self._is_closed:
            self._is_closed = True
            if self.end is None:
                self._reader.cancel()

    def __enter__(self) -> ScanStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class StartedScan:
    """The batches of the reply that a scan began with. If `end` is None after the last, a stream resumes it with batch
    `batches`."""

    def __init__(self, reply: ScanStart):
        self._batches = iter(reply.batches)
        self.batches = len(reply.batches)
        self.end = reply.end

    def __iter__(self) -> StartedScan:
        return self

    def __next__(self) -> Batch:
        return batch_of(next(self._batches))

    def close(self) -> None:
        """No-op: the server holds nothing for it."""
