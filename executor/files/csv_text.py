"""The text of a CSV file in blocks of whole rows, its quotes and line ends held against the dialect.

    bytes ──decompress, decode──► UTF-8 ──find where rows end──► blocks of whole rows, checked before they are parsed

A parser that meets a quote where none belongs has to guess, and a wrong guess swallows rows. So a block is parsed only
if every quote opens a field, closes one, or stands for itself:

| text | here | PostgreSQL |
|---|---|---|
| `"a""b"` | `a"b` | `a"b` |
| `a"b`, `"a"b` | an error | `ab` |
| `"a` up to the end of the file | an error with the line of the quote | an error |
| line ends of two kinds outside of quotes | an error | an error |

The checks work on positions in numpy arrays. A quote lies outside of others if the number of quotes before it is even;
a line end ends a row if the number of quotes before it is even. Texts without any quote take none of that.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ...sql.file_options import compression_of
from ...storage.vector import Array

BLOCK_BYTES = 1 << 20
"""Bytes that are read and parsed at a time: what a processor's cache holds, 4 MB take twice the time."""
MOST_ROW_BYTES = 1 << 28
"""Bytes of one row; a quote that is never closed is found before the whole file is in memory."""
_LF, _CR = 10, 13
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written; `escape` stands before a quote inside of quotes, as a rule it is the quote itself."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str = ""
    header: bool = True
    encoding: str = "utf-8"
    compression: str | None = None
    """None: as the file's name says."""

    @classmethod
    def of(cls, options: dict[str, Any]) -> Dialect:
        """The dialect of a statement's options, as `sql.file_options` has them."""
        known = {name: options[name] for name in cls.__slots__ if name in options}
        return cls(**{"escape": options.get("quote", '"'), **known})


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of a file: UTF-8 bytes, and the line of the file on which they begin, from 1."""

    text: bytes
    first_line: int


class CsvText:
    """One file, read from beginning to end. Raises `DataError` with file and line."""

    def __init__(self, path: str, dialect: Dialect, block_bytes: int | None = None):
        self._path = path
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._dialect = dialect
        self._quote, self._escape = ord(dialect.quote), ord(dialect.escape)
        self._line_end = b""
        """What ends lines, once the first line end was seen."""
        self._line = 1

    def blocks(self) -> Iterator[Block]:
        """The file from its first row (the header) on, a few megabytes at a time."""
        try:
            yield from self._blocks()
        except OSError as error:
            raise DataError(f"{self._path} cannot be read: {error.strerror or as_clause(str(error))}") from error

    def _blocks(self) -> Iterator[Block]:
        rest = b""
        wanted = self._block_bytes
        chunks = self._decoded()
        is_over = False
        while not is_over:
            read, size = [rest], len(rest)
            while size < wanted and not is_over:
                chunk = next(chunks, None)
                is_over = chunk is None
                read.append(chunk or b"")
                size += len(chunk or b"")
            text = b"".join(read)
            stop = self._checked(text, is_over)
            if stop:
                yield self._block(text[:stop] if stop < len(text) else text)
            rest = text[stop:]
            if len(rest) > MOST_ROW_BYTES:
                raise self._error(
                    f"the row that begins here is longer than {MOST_ROW_BYTES >> 20} MiB; is a quote open?"
                )
            # A row longer than a block is looked at again with twice its length: linear time for one of any length.
            wanted = self._block_bytes if stop else 2 * size

    def _block(self, text: bytes) -> Block:
        self._refuse_bad_bytes(text)
        if text[-1] not in b"\n\r":
            # Arrow takes an empty last field for a quoted one, if one before it is and no line end follows.
            text += self._line_end or b"\n"
        block = Block(self._plain_escapes(text), self._line)
        self._line += self._lines_of(text)
        return block

    # ---- bytes ---------------------------------------------------------------------------------------------------

    def _decoded(self) -> Iterator[bytes]:
        """The file's text as UTF-8, without a byte order mark."""
        compression = self._dialect.compression or compression_of(self._path)
        with pa.input_stream(self._path, compression=None if compression == "none" else compression) as stream:
            first = stream.read(self._block_bytes)
            if codecs.lookup(self._dialect.encoding).name == "utf-8":
                for mark, name in _MARKS:
                    if first.startswith(mark):
                        raise DataError(f"{self._path} is {name}, not UTF-8; read it with ENCODING '{name.lower()}'")
                first = first.removeprefix(codecs.BOM_UTF8)
                while first:
                    yield first
                    first = stream.read(self._block_bytes)
                return
            yield from self._transcoded(first, stream)

    def _transcoded(self, data: bytes, stream: Any) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self._dialect.encoding)("strict")
        line, is_first = 1, True
        while data or not is_first:
            try:
                text = decoder.decode(data, not data)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(self._dialect.encoding, "ignore")
                raise self._no_text(line + before.count("\n"), error.object[error.start]) from None
            line += text.count("\n")
            yield (text.removeprefix("\ufeff") if is_first else text).encode("utf-8", "surrogatepass")
            if not data:
                return
            data, is_first = stream.read(self._block_bytes), False

    def _refuse_bad_bytes(self, text: bytes) -> None:
        if text.isascii():
            return
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise self._no_text(self._line_at(text, error.start), text[error.start]) from None

    def _no_text(self, line: int, byte: int) -> DataError:
        name = self._dialect.encoding.upper()
        other = "; say what it is in, such as ENCODING 'latin1'" if name == "UTF-8" else ""
        return DataError(f"{self._path}, line {line}: byte 0x{byte:02X} is no {name} text{other}")

    # ---- lines ---------------------------------------------------------------------------------------------------

    def _lines_of(self, text: bytes) -> int:
        # Lines are short: numpy counts their ends several times as fast as `bytes.count`.
        end = _CR if self._line_end == b"\r" else _LF
        return int(np.count_nonzero(np.frombuffer(text, np.uint8) == end))

    def _line_at(self, text: bytes, place: int) -> int:
        return self._line + self._lines_of(text[:place])

    def _error(self, message: str, line: int | None = None) -> DataError:
        return DataError(f"{self._path}, line {self._line if line is None else line}: {message}")

    def _checked(self, text: bytes, is_over: bool) -> int:
        """Where the last whole row of a text ends, which begins with a row. Refuses quotes and line ends that do not
        belong where they are."""
        quotes = self._quotes(text, is_over) if self._quote in text else _NO_PLACES
        if not self._line_end or self._line_end != b"\n" or _CR in text:
            self._check_line_ends(text, quotes, is_over)
        if is_over:
            return len(text)
        end = b"\r" if self._line_end == b"\r" else b"\n"
        # A carriage return at the end may be half of a line end; CR is known to end lines alone by what follows it.
        stop = len(text) - (end == b"\r")
        while (place := text.rfind(end, 0, stop)) >= 0:
            before = int(np.searchsorted(quotes, place))
            if before % 2 == 0:
                return place + 1
            stop = int(quotes[before - 1])  # on to where this quote opens
        return 0

    def _check_line_ends(self, text: bytes, quotes: Array, is_over: bool) -> None:
        line_feeds, returns = (_outside(_places(text, end), quotes) for end in (_LF, _CR))
        if len(returns) and returns[-1] == len(text) - 1 and not is_over:
            returns = returns[:-1]  # a line feed may follow
        self._learn_line_end(text, line_feeds, returns)
        self._refuse_other_line_ends(text, line_feeds, returns)

    def _learn_line_end(self, text: bytes, line_feeds: Array, returns: Array) -> None:
        if self._line_end:
            return
        feed, back = (int(places[0]) if len(places) else len(text) for places in (line_feeds, returns))
        if back < feed:
            self._line_end = b"\r\n" if feed == back + 1 else b"\r"
        elif feed < len(text):
            self._line_end = b"\n"

    def _refuse_other_line_ends(self, text: bytes, line_feeds: Array, returns: Array) -> None:
        """Refuse line ends outside of quotes that are not as the first one."""
        if not self._line_end:
            return
        if self._line_end == b"\n":
            wrong = returns
        elif self._line_end == b"\r":
            wrong = line_feeds
        else:
            data = np.frombuffer(text, np.uint8)
            wrong = np.concatenate(
                (line_feeds[data[line_feeds - 1] != _CR], returns[data[np.minimum(returns + 1, len(data) - 1)] != _LF])
            )
            wrong = np.append(wrong, line_feeds[line_feeds == 0])
        if len(wrong):
            place = int(wrong.min())
            shown = {b"\n": "a line feed", b"\r": "a carriage return", b"\r\n": "a carriage return and a line feed"}
            raise self._error(
                f"{shown[text[place : place + 1]]} outside of quotes, where lines end in {shown[self._line_end]}",
                self._line_at(text, place),
            )

    # ---- quotes --------------------------------------------------------------------------------------------------

    def _quotes(self, text: bytes, is_over: bool) -> Array:
        """Where quotes stand that open and close fields, ascending; a doubled one closes and opens again. Of an even
        number up to some place, the place is outside of quotes. Refuses those that do neither."""
        data = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(data == self._quote)
        if self._escape != self._quote:
            quotes = self._without_escaped(text, data, quotes)
            joins = np.zeros(max(0, len(quotes) - 1), np.bool_)
        else:
            joins = np.diff(quotes) == 1
            joins[0::2] = False  # from a closing quote to the next one only
        opening, closing = quotes[0::2], quotes[1::2]
        before = data[opening - 1]
        opens = self._is_edge(before) | (opening == 0)
        opens[1:] |= joins[1::2]
        after = data[np.minimum(closing + 1, len(data) - 1)]
        closes = self._is_edge(after) | (closing == len(data) - 1)
        closes[: len(joins[1::2])] |= joins[1::2]
        wrong = [(int(places[0]), what) for places, what in (
            (opening[~opens], "a quote in the middle of a field that has none at its beginning"),
            (closing[~closes], "text behind the quote that closes a field"),
        ) if len(places)]  # fmt: skip
        if wrong:
            place, message = min(wrong)
            raise self._error(f"{message}; a field with quotes stands in quotes, where they are doubled or escaped",
                              self._line_at(text, place))  # fmt: skip
        if is_over and len(quotes) % 2:
            begun = opening.copy()
            begun[1:][joins[1::2][: len(begun) - 1]] = -1
            raise self._error(
                "the quote that opens a field here is never closed", self._line_at(text, int(begun.max()))
            )
        return quotes

    def _is_edge(self, data: Array) -> Array:
        edge: Array = (data == ord(self._dialect.delimiter)) | (data == _LF) | (data == _CR)
        return edge

    def _without_escaped(self, text: bytes, data: Array, quotes: Array) -> Array:
        """The quotes that no escape character stands before, as far as fields go."""
        run = _run_before(data, quotes, self._escape)
        escaped = run % 2 == 1
        kept: Array = quotes[~escaped]
        outside = quotes[escaped][np.searchsorted(kept, quotes[escaped]) % 2 == 0]
        if len(outside):
            raise self._error("a quote in the middle of a field that has none at its beginning",
                              self._line_at(text, int(outside[0])))  # fmt: skip
        return kept

    def _plain_escapes(self, text: bytes) -> bytes:
        """Rows in which quotes are escaped by doubling them, whatever the dialect has."""
        if self._escape == self._quote or self._escape not in text or self._quote not in text:
            return text
        data = np.frombuffer(text, np.uint8).copy()
        quotes = np.flatnonzero(data == self._quote)
        kept = self._without_escaped(text, data, quotes)
        escapes = np.flatnonzero(data == self._escape)
        escapes = escapes[np.searchsorted(kept, escapes) % 2 == 1]
        follows = data[np.minimum(escapes + 1, len(data) - 1)]
        first = _run_before(data, escapes, self._escape) % 2 == 0
        # An escape character before anything else stands for itself, as in PostgreSQL.
        data[escapes[first & (follows == self._quote)]] = self._quote
        keep = np.ones(len(data), np.bool_)
        keep[escapes[first & (follows == self._escape)]] = False
        return data[keep].tobytes()


_NO_PLACES = np.empty(0, np.intp)


def _outside(places: Array, quotes: Array) -> Array:
    """Those of the places that are outside of quotes."""
    outside: Array = places[np.searchsorted(quotes, places) % 2 == 0]
    return outside


def _places(text: bytes, byte: int) -> Array:
    return np.flatnonzero(np.frombuffer(text, np.uint8) == byte)


def _run_before(data: Array, places: Array, byte: int) -> Array:
    """How many of a byte stand directly before each place."""
    others = np.flatnonzero(data != byte)
    found = np.searchsorted(others, places)
    last = np.where(found > 0, others[np.maximum(found - 1, 0)], -1) if len(others) else np.full(len(places), -1)
    run: Array = places - last - 1
    return run


def as_clause(text: str) -> str:
    """A message of Arrow's as a part of one of ours; abbreviations keep their capitals.

    >>> as_clause("CSV parse error"), as_clause("Truncated compressed stream")
    ('CSV parse error', 'truncated compressed stream')
    """
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
