"""The file that results go to: `--output`, `\\o`.

Text formats take one result after another, of which JSON has a line each. Parquet takes one, and streams it in row
groups. Either way the memory is that of a batch, whatever the size of the result.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import FileAccessError, InterfaceError, NotSupportedError
from ..model.disk_errors import disk_error
from ..model.types import DataType
from . import formats

PARQUET: Final = "parquet"
SUFFIXES: Final = {".csv": "csv", ".json": "json", ".md": "markdown", ".txt": "table", ".parquet": PARQUET}
_ROW_GROUP: Final = 1 << 20


class OutputFile:
    """A file that results are written to, one after another.

    The file is made with the first result, in place of what the name had before: a statement that fails, or that has
    no result, leaves that as it was. A result that fails half-way is cut off again.

    Parameters
    ----------
    path : Path
    format : str, optional
        One of `formats.NAMES`; None: as the file's name ends, or what the shell prints where it ends with no suffix.

    Raises
    ------
    InterfaceError
        The name ends with a suffix that is none of `SUFFIXES`, and no format is given; or it is a command (`| cat`).
    FileAccessError
        There is no such directory.
    """

    def __init__(self, path: Path, format: str | None = None):
        if str(path).lstrip().startswith("|"):
            raise InterfaceError(
                f"{path}: results go to a file, not to a command; `nyala shell ... -c ... | command` pipes them"
            )
        self.path = path.expanduser()
        self.format = format or self._named_format()
        self._results = 0
        self._failed = False
        self._file: TextIO | None = None
        self._waiting: Path | None = None
        """Temporary file of the first result, until it is complete."""
        if not self.path.parent.is_dir():
            raise FileAccessError(f"cannot write {path}: there is no directory {self.path.parent}")
        if self.path.is_dir():
            raise FileAccessError(f"cannot write {path}: it is a directory")

    def _named_format(self) -> str | None:
        suffix = self.path.suffix.lower()
        if suffix and suffix not in SUFFIXES:
            known = f"{', '.join(list(SUFFIXES)[:-1])} and {list(SUFFIXES)[-1]}"
            raise InterfaceError(
                f"{self.path}: {suffix} is not a known suffix; known are {known}. Others need --format or \\format"
            )
        return SUFFIXES.get(suffix)

    def write(self, format: str, columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch]) -> int:
        """Add a result, in the file's format if it has one; the number of its rows."""
        chosen = self.format or format
        if chosen == PARQUET and self._results:
            raise InterfaceError(f"{self.path} holds a result, and a Parquet file holds one: \\o names another")
        # What fails before its first rows must not touch the file.
        first = next(batches, None)
        batches = iter(()) if first is None else itertools.chain([first], batches)
        file = self.text
        start = file.tell() if file.seekable() else None
        try:
            count = write(chosen, columns, batches, file)
            file.flush()
            self._promote()
        except BaseException as error:
            self._failed = True
            self._cut(start)
            if isinstance(error, OSError):
                raise disk_error(f"cannot write {self.path}", error) from error
            raise
        self._results += 1
        return count

    @property
    def text(self) -> TextIO:
        """The open file; also for output that is not a result, such as a line that a command prints."""
        if self._file is None:
            try:
                self._file = self._opened()
            except OSError as error:
                raise disk_error(f"cannot write {self.path}", error) from error
        return self._file

    def _opened(self) -> TextIO:
        """A new file, which takes the name when the first result is whole; a pipe or a device itself."""
        if self.path.is_file() or not self.path.exists():
            place = self.path.resolve()
            waiting = place.with_name(f".{place.name}.{os.getpid()}.part")
            try:
                file = waiting.open("x", encoding="utf-8", newline="")
                if place.exists():
                    shutil.copymode(place, waiting)
                self._waiting = waiting
                return file
            except OSError:  # a directory in which nothing can be made, around a file that can be written
                waiting.unlink(missing_ok=True)
        return self.path.open("w", encoding="utf-8", newline="")

    def _promote(self) -> None:
        """The first result is whole: it takes the old file's place."""
        if self._waiting is not None:
            self._waiting.replace(self.path.resolve())
            self._waiting = None

    def _cut(self, start: int | None) -> None:
        """Remove the half of a result: it must not look like a whole one."""
        assert self._file is not None
        with contextlib.suppress(OSError):
            if self._waiting is not None:
                self._waiting.unlink(missing_ok=True)
                self._waiting = None
                self._file.close()
                self._file = None
            elif start is not None:
                self._file.seek(start)
                self._file.truncate()

    def close(self) -> None:
        """The end of it. `DiskError` where the rest cannot be written, unless `write` has failed before."""
        if self._file is None:
            return
        try:
            self._file.close()
            self._promote()
        except OSError as error:
            if not self._failed:
                raise disk_error(f"cannot write {self.path}", error) from error
        finally:
            self._file = None


def write(format: str, columns: Sequence[tuple[str, DataType]], batches: Iterator[pa.RecordBatch], out: TextIO) -> int:
    """Write a result in any format, Parquet included; how many rows it had."""
    if format != PARQUET:
        return formats.write(format, columns, batches, out)
    binary: BinaryIO | None = getattr(out, "buffer", None)
    if binary is None or out.isatty():
        raise InterfaceError("Parquet needs a file: use --output FILE or \\o FILE")
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
