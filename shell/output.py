"""The file that results go to: `--output`, `\\o`.

Text formats take one result after another. Parquet takes one, and streams it in row groups. Either way the memory is
that of a batch, whatever the size of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InterfaceError, NotSupportedError
from ..storage.files.disk_errors import disk_error
from ..storage.types import DataType
from . import formats

PARQUET: Final = "parquet"
SUFFIXES: Final = {".csv": "csv", ".json": "json", ".md": "markdown", ".parquet": PARQUET}
_ROW_GROUP: Final = 1 << 20


class OutputFile:
    """A file that is being written, made (or emptied) when it is opened.

    Parameters
    ----------
    path : Path
    format : str, optional
        One of `formats.NAMES`; None: as the file's name ends, if it is in `SUFFIXES`, else what the shell prints.

    Raises
    ------
    DiskError
        It cannot be written.
    """

    def __init__(self, path: Path, format: str | None = None):
        self.path = path.expanduser()
        self.format = format or SUFFIXES.get(self.path.suffix.lower())
        self._results = 0
        self._failed = False
        try:
            self._file = self.path.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise disk_error(f"cannot write {path}", error) from error

    def write(self, format: str, columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch]) -> int:
        """Add a result, in the file's format if it has one; how many rows it had."""
        chosen = self.format or format
        if chosen == PARQUET and self._results:
            raise InterfaceError(f"{self.path} holds a result, and a Parquet file holds one: \\o names another")
        try:
            count = write(chosen, columns, batches, self._file)
            self._file.flush()
        except BaseException as error:
            if chosen == PARQUET:
                # Half a result must not look like a whole one.
                self._file.seek(0)
                self._file.truncate()
            self._failed = True
            if isinstance(error, OSError):
                raise disk_error(f"cannot write {self.path}", error) from error
            raise
        self._results += 1
        return count

    @property
    def text(self) -> TextIO:
        """For what is no result: a line that a command prints."""
        return self._file

    def close(self) -> None:
        """The end of it. `DiskError` where the rest cannot be written, unless `write` has failed before."""
        try:
            self._file.close()
        except OSError as error:
            if not self._failed:
                raise disk_error(f"cannot write {self.path}", error) from error


def write(format: str, columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch], out: TextIO) -> int:
    """Write a result in any format, Parquet included; how many rows it had."""
    if format != PARQUET:
        return formats.write(format, columns, batches, out)
    binary: BinaryIO | None = getattr(out, "buffer", None)
    if binary is None or out.isatty():
        raise InterfaceError("Parquet goes to a file: --output FILE, or \\o FILE, says which")
    return _write_parquet(columns, batches, binary)


def _write_parquet(columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch], binary: BinaryIO) -> int:
    schema = pa.schema([pa.field(name, type_.arrow) for name, type_ in columns])
    if len(set(schema.names)) < len(schema.names):
        raise InterfaceError("two columns of the result have one name; a Parquet file needs a name for each")
    waiting: list[pa.RecordBatch] = []
    count = rows = 0
    try:
        with pq.ParquetWriter(binary, schema, compression="zstd") as writer:
            for batch in batches:
                arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema)]
                waiting.append(pa.record_batch(arrays, schema=schema))
                count += batch.num_rows
                rows += batch.num_rows
                if rows >= _ROW_GROUP:
                    writer.write_table(pa.Table.from_batches(waiting), row_group_size=rows)
                    waiting, rows = [], 0
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting), row_group_size=rows)
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(f"Parquet cannot hold this result: {error}") from error
    return count
