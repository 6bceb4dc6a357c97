"""The bytes of a CSV file as UTF-8, without a byte order mark: decompressed and transcoded, in the caller's buffers."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa

from ...errors import DataError
from ...sql.file_options import compression_of

CHUNK_BYTES = 1 << 20
"""Bytes that are transcoded at a time."""
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
LATIN = "; name its encoding, such as ENCODING 'latin1'"
"""Advice for a file that is not UTF-8, in SQL terms."""


class Bytes(Protocol):
    """A stream of bytes."""

    def readinto(self, view: Any) -> int:
        """Fill a buffer from its beginning; return the number of bytes, 0 only at the end of the stream."""


class Pieces:
    """A stream of pieces of bytes, followed by those of `rest`."""

    def __init__(self, pieces: Iterable[bytes], rest: Bytes | None = None):
        self._pieces = iter(pieces)
        self._piece = memoryview(b"")
        self._rest = rest

    def readinto(self, view: Any) -> int:
        """Implement `Bytes`."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return self._rest.readinto(view) if self._rest is not None else 0
            self._piece = memoryview(piece)
        size = min(len(view), len(self._piece))
        view[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size


@contextmanager
def open_text(path: str, encoding: str, compression: str | None = None) -> Iterator[Bytes]:
    """Open the text of a local file; `compression` None: determined by the file's name.

    Raises `DataError` if it begins with the byte order mark of an encoding other than the one given.
    """
    compression = compression or compression_of(path)
    with pa.input_stream(path, compression=None if compression == "none" else compression) as stream:
        if codecs.lookup(encoding).name != "utf-8":
            yield Pieces(transcoded(iter(lambda: stream.read(CHUNK_BYTES), b""), path, encoding))
            return
        begin = stream.read(4)
        for mark, name in _MARKS:
            if begin.startswith(mark):
                raise DataError(f"{path} is {name}, not UTF-8; read it with ENCODING '{name.lower()}'")
        yield Pieces([begin.removeprefix(codecs.BOM_UTF8)], stream)


def transcoded(pieces: Iterator[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """Yield the same text as UTF-8; raises `DataError` with the line of bytes that are invalid in the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    line, is_first = 1, True
    data = b"-"
    while data:
        data = next(pieces, b"")
        try:
            text = decoder.decode(data, not data)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(encoding, "ignore")
            raise no_text(name, line + before.count("\n"), error.object[error.start], encoding) from None
        line += text.count("\n")
        if text:
            yield (text.removeprefix("\ufeff") if is_first else text).encode("utf-8", "surrogatepass")
            is_first = False


def no_text(name: str, line: int, byte: int, encoding: str = "utf-8", advice: str = "") -> DataError:
    """Make the error of a byte that is invalid in the encoding."""
    return DataError(f"{name}, line {line}: byte 0x{byte:02X} is no {encoding.upper()} text{advice}")
