"""A temporary file of Arrow IPC streams.

The file has no name as soon as it is open (O_TMPFILE if the system has it, else it is unlinked at once). So the system
frees it when it is closed, when it is no longer referenced, and when the process is killed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading

import pyarrow as pa

from ...errors import DiskError, DiskFull, OperationalError
from ...model.disk_errors import disk_error
from ...model.forks import finalize, stay_with_process
from ...model.lazy_dataclass import dataclass
from .temporary import TEMPORARY_PREFIX


@dataclass(frozen=True, slots=True)
class Extent:
    """Position of a record batch in its file: offset and length in bytes; `rows` is its number of rows."""

    offset: int
    length: int
    rows: int


_STATEMENT = (
    "the statement needs more memory than memory_limit allows; set temp_directory to another place, or raise "
    "memory_limit"
)


class SpillFile:
    """Record batches written once and read any number of times, by several threads.

    Parameters
    ----------
    directory : str, optional
        Directory of the file; None: the system's directory for temporary files. Raises `DiskError` if the file cannot
        be created.
    need : str
        Why the file is needed, and what else is possible, for errors.
    """

    def __init__(self, directory: str | None = None, need: str = _STATEMENT):
        self._need = need
        self._directory = directory or tempfile.gettempdir()
        try:
            self._file = tempfile.TemporaryFile(prefix=TEMPORARY_PREFIX, dir=self._directory)  # noqa: SIM115
        except OSError as error:
            raise self._failure(error) from error
        finalize(self, self._file.close)
        stay_with_process(self)
        self._lock = threading.Lock()
        self._end = 0

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._end

    def write(self, batch: pa.RecordBatch) -> Extent:
        """Append a record batch as a separate IPC stream. Raises `DiskError` if the disk is full or fails."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = memoryview(sink.getvalue())
        with self._lock:
            extent = Extent(self._end, len(data), batch.num_rows)
            self._end += len(data)
        try:
            self._write_at(extent.offset, data)
        except OSError as error:
            raise self._failure(error) from error
        return extent

    def _write_at(self, offset: int, data: memoryview) -> None:
        while len(data):
            written = os.pwrite(self._file.fileno(), data, offset)
            offset, data = offset + written, data[written:]

    def read(self, extent: Extent) -> pa.RecordBatch:
        """Read the record batch at an extent."""
        parts, offset, left = [], extent.offset, extent.length
        while left:
            data = os.pread(self._file.fileno(), left, offset)
            if not data:
                raise OperationalError(f"a temporary file in {self._directory} ends at byte {offset}, too early")
            parts.append(data)
            offset, left = offset + len(data), left - len(data)
        with pa.ipc.open_stream(parts[0] if len(parts) == 1 else b"".join(parts)) as reader:
            return reader.read_next_batch()

    def map(self, extent: Extent) -> pa.RecordBatch:
        """The record batch at an extent, in memory that the system reads from the file when it is touched, and may give
        away again. It stays readable after `close`."""
        start = extent.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        skipped = extent.offset - start
        mapped = mmap.mmap(self._file.fileno(), skipped + extent.length, access=mmap.ACCESS_READ, offset=start)
        with pa.ipc.open_stream(pa.py_buffer(mapped).slice(skipped)) as reader:
            return reader.read_next_batch()

    def close(self) -> None:
        """Close the file, which frees its space; closing again does nothing."""
        self._file.close()

    _abandon = close

    def _failure(self, error: OSError) -> DiskError:
        failed = disk_error(self._directory, error)
        what = "is full" if isinstance(failed, DiskFull) else f"cannot be used ({error.strerror or error})"
        return type(failed)(f"the temporary directory {self._directory} {what}, and {self._need}", failed.errno)
