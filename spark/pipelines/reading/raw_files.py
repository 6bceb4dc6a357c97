"""Reads the bytes of a source's files for scans and tasks: decompressed, in UTF-8, in pieces.

An uncompressed file in UTF-8 may be read from any record boundary; any other file is read from its beginning.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs

from ....errors import InterfaceError, NotSupportedError, OperationalError
from ....executor.files.csv_bytes import transcoded
from ....model.lazy_dataclass import dataclass
from .listing import path_of

CHUNK_BYTES: Final = 8 << 20
BOM: Final = codecs.BOM_UTF8
UTF8_ADVICE: Final = "; set the file's encoding with --option encoding=..., such as ISO-8859-1 or windows-1252"
_UTF8: Final = "utf-8"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file that begins and ends at record boundaries: bytes of its decoded content; `stop` None is its end.

    `records` is their number according to the first pass, `line` the number of the first line, from 1.
    """

    uri: str
    start: int = 0
    stop: int | None = None
    records: int = 0
    line: int = 1


def python_encoding(name: str | None) -> str:
    """Python's name of an encoding that the user has named, as Java or Python call it; `InterfaceError` if there is
    none.

    >>> python_encoding("ISO-8859-1"), python_encoding(None)
    ('iso8859-1', 'utf-8')
    """
    try:
        return codecs.lookup(name or _UTF8).name
    except LookupError:
        raise InterfaceError(f"option encoding={name}: there is no such encoding; UTF-8, ISO-8859-1, ...") from None


def can_seek(uri: str, encoding: str) -> bool:
    """True if byte positions of the file are byte positions of its content."""
    return encoding == _UTF8 and _suffix(uri) not in (*_DECOMPRESSORS, *_REFUSED)


@contextmanager
def opened(uri: str) -> Iterator[IO[bytes]]:
    """The decompressed content of a file.

    Raises `OperationalError` if it cannot be opened, `NotSupportedError` for a compression that only Hadoop writes.
    """
    suffix = _suffix(uri)
    if suffix in _REFUSED:
        raise NotSupportedError(
            f"{path_of(uri)}: {suffix[1:]} has a framing of Hadoop's own; decompress it, or use .gz, .bz2 or .zst"
        )
    try:
        with _raw(uri) as raw:
            yield _DECOMPRESSORS[suffix](raw) if suffix in _DECOMPRESSORS else raw
    except (OSError, EOFError, zlib.error) as error:
        raise OperationalError(f"cannot read {path_of(uri)}: {getattr(error, 'strerror', None) or error}") from error


def _suffix(uri: str) -> str:
    return Path(path_of(uri)).suffix.lower()


def _raw(uri: str) -> Any:
    if uri.startswith("file:"):
        return Path(path_of(uri)).open("rb")
    filesystem, path = pafs.FileSystem.from_uri(quote(uri.replace("s3a://", "s3://", 1), safe=":/@"))
    return pa.PythonFile(filesystem.open_input_file(path), mode="r")


class _Zlib(io.RawIOBase):
    """Decompresses a zlib stream, as Hadoop's `.deflate` files are."""

    def __init__(self, raw: IO[bytes]):
        self._raw = raw
        self._inflate = zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        while (chunk := self._raw.read(CHUNK_BYTES)) or not self._inflate.eof:
            if not chunk:
                raise EOFError("the compressed data ends too early")
            if found := self._inflate.decompress(chunk):
                return found
        return b""


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))


_DECOMPRESSORS: Final[dict[str, Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".zst": _zstd,
    ".deflate": _Zlib,
}
_REFUSED: Final = (".lz4", ".snappy")


# ---- pieces of text --------------------------------------------------------------------------------------------------


def chunks(uri: str, encoding: str, span: Span | None = None) -> Iterator[bytes]:
    """The content in UTF-8, in pieces, with its byte order mark; only that of `span` if it is given.

    Raises `DataError` with the line of bytes that are not in the encoding. UTF-8 is not checked here.
    """
    with opened(uri) as stream:
        pieces = _pieces(stream)
        if encoding != _UTF8:
            pieces = transcoded(pieces, path_of(uri), encoding)
        if span is None:
            yield from pieces
        elif can_seek(uri, encoding):
            stream.seek(span.start)
            yield from _first(_pieces(stream), None if span.stop is None else span.stop - span.start)
        else:
            yield from _from(pieces, span.start)


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(CHUNK_BYTES):
        yield piece


def _first(pieces: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    for piece in pieces:
        if size is None:
            yield piece
            continue
        yield piece[:size]
        size -= len(piece)
        if size <= 0:
            return


def _from(pieces: Iterator[bytes], start: int) -> Iterator[bytes]:
    for piece in pieces:
        if start < len(piece):
            yield piece[start:]
        start = max(0, start - len(piece))
