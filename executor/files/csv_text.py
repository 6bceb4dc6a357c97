"""The text of a CSV file in blocks of whole rows, its quotes and line ends checked against the dialect.

    bytes ──`csv_bytes`: decompress, decode──► UTF-8 ──find where rows end──► blocks of whole rows, checked before
                                                                              they are parsed

`COPY`, `read_csv` and Spark's ingest read all CSV with it. A parser that meets a misplaced quote has to guess, and a
wrong guess loses rows. So a block is parsed only if every quote opens a field, closes one, or is an escaped quote:

| text | here | PostgreSQL |
|---|---|---|
| `"a""b"` | `a"b` | `a"b` |
| `a"b`, `"a"b` | an error | `ab` |
| `"a` up to the end of the file | an error with the line of the quote | an error |
| line ends of two kinds outside of quotes | an error | an error |

The checks work on bitmaps (`csv_bits`): a quote or a line end lies outside of others if the number of quotes before it
is even. Texts without any quote or carriage return skip the checks.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DataError
from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array
from . import csv_bits
from .csv_bytes import LATIN, Bytes, no_text

BLOCK_BYTES = 1 << 22
"""Bytes that are read and parsed at a time. With 1 MB a query takes 1.4 times the processor time: each block has a
fixed cost in the operators above."""
MOST_ROW_BYTES = 1 << 28
"""Largest number of bytes of one row; it detects a quote that is never closed before the whole file is in memory."""
_LF, _CR = 10, 13
_SHOWN = {b"\n": "a line feed", b"\r": "a carriage return", b"\r\n": "a carriage return and a line feed"}
_ADVICE = "a field with quotes stands in quotes, where they are doubled or escaped"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Format of a CSV file; `escape` precedes a quote inside of quotes, usually it is the quote itself."""

    delimiter: str = ","
    quote: str = '"'
    """"": there are no quotes, every character is one of a field."""
    escape: str = '"'
    null: str = ""
    header: bool = True
    encoding: str = "utf-8"
    compression: str | None = None
    """None: determined by the file's name."""

    @classmethod
    def of(cls, options: dict[str, Any]) -> Dialect:
        """Return the dialect of a statement's options, as `sql.file_options` has them."""
        known = {name: options[name] for name in cls.__slots__ if name in options}
        return cls(**{"escape": options.get("quote", '"'), **known})


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of a file.

    Attributes
    ----------
    data : ndarray of uint8
        Their UTF-8, each row with its line end, escaped quotes doubled.
    first_line : int
        Line of the file on which they begin, from 1.
    size : int
        Their number of bytes in the decoded file.
    line_end : bytes
        Line terminator; empty if there is but one line.
    ends : ndarray of uint64, optional
        Bitmap of the last bytes of line ends outside of quotes, in the file's bytes; None: each line feed is one.
    has_x : bool
        False: there is no `x` in either case, so no hexadecimal number.
    """

    data: Array
    first_line: int
    size: int = 0
    line_end: bytes = b""
    ends: Array | None = None
    has_x: bool = True

    @property
    def text(self) -> bytes:
        """Return a copy of the rows as bytes."""
        return self.data.tobytes()

    def end_of_row(self, begin: int) -> int:
        """Position at which the row ends that begins at a byte of the file, its line end included."""
        return csv_bits.first(csv_bits.since(self._row_ends(), begin)) + 1 or self.size

    def count_rows(self, begin: int, with_empty: bool) -> int:
        """Number of rows from a byte of the file on, with or without empty lines."""
        ends = self._row_ends()
        rows = csv_bits.count(csv_bits.since(ends, begin)) + (csv_bits.last(ends) < self.size - 1)
        if with_empty:
            return rows
        empty = csv_bits.after(ends, first=True)
        if len(self.line_end) > 1:
            empty = csv_bits.after(empty)
        return rows - csv_bits.count(csv_bits.since(empty & ends, begin))

    def _row_ends(self) -> Array:
        return csv_bits.bits(self.data[: self.size] == _LF) if self.ends is None else self.ends


class CsvText:
    """One file, read from beginning to end. Raises `DataError` with file and line.

    Parameters
    ----------
    name : str
        The file, for errors.
    source : Bytes
        Its text in UTF-8 (which is checked), from the beginning of a row.
    dialect : Dialect
    line : int
        Line on which the text begins.
    block_bytes : int, optional
        Size of blocks; longer rows make longer ones. None: `BLOCK_BYTES`.
    advice : str
        Advice in errors about text that is not UTF-8.
    """

    def __init__(
        self,
        name: str,
        source: Bytes,
        dialect: Dialect,
        line: int = 1,
        block_bytes: int | None = None,
        advice: str = LATIN,
    ):
        self._name = name
        self._source = source
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._advice = advice
        self._delimiter = ord(dialect.delimiter)
        self._quote = ord(dialect.quote) if dialect.quote else -1
        self._escape = ord(dialect.escape) if dialect.quote else -1
        self._line_end = b""
        """Line terminator, once the first line end was seen."""
        self._line = line

    def blocks(self) -> Iterator[Block]:
        """Yield the file from its first row (the header) on, some megabytes at a time."""
        rest: Any = b""
        is_over = False
        while not is_over:
            # A row longer than a block is scanned again with twice its length: linear time for a row of any length.
            text = bytearray(max(self._block_bytes, 2 * len(rest)))
            text[: len(rest)] = rest
            size = len(rest)
            with memoryview(text) as view:
                while size < len(text) and not is_over:
                    more = self._source.readinto(view[size:])
                    is_over = not more
                    size += more
            del text[size:]
            stop, ends = self._checked(text, is_over)
            if stop:
                yield self._block(text, stop, ends)
            rest = memoryview(text)[stop:]
            if len(rest) > MOST_ROW_BYTES:
                raise self._error(
                    f"the row that begins here is longer than {MOST_ROW_BYTES >> 20} MiB; is a quote open?"
                )

    def _block(self, text: bytearray, stop: int, ends: Array | None) -> Block:
        self._refuse_bad_bytes(text, stop)
        data = np.frombuffer(text, np.uint8, stop)
        if text[stop - 1] not in b"\n\r":
            # Arrow reads an empty last field as a quoted one if an earlier one is quoted and no line end follows.
            data = np.append(data, np.frombuffer(self._line_end or b"\n", np.uint8))
        has_x = ord("x") in text or ord("X") in text
        block = Block(self._plain_escapes(data), self._line, stop, self._line_end, ends, has_x)
        self._line += self._lines_of(data[:stop])
        return block

    def _refuse_bad_bytes(self, text: bytearray, stop: int) -> None:
        if text.isascii():
            return
        try:
            codecs.utf_8_decode(memoryview(text)[:stop], "strict", True)
        except UnicodeDecodeError as error:
            raise no_text(
                self._name, self._line_at(text, error.start), text[error.start], advice=self._advice
            ) from None

    # ---- lines ---------------------------------------------------------------------------------------------------

    def _lines_of(self, data: Array) -> int:
        # Lines are short: numpy counts their ends several times as fast as `bytes.count`.
        return int(np.count_nonzero(data == (_CR if self._line_end == b"\r" else _LF)))

    def _line_at(self, text: bytearray, place: int) -> int:
        return self._line + self._lines_of(np.frombuffer(text, np.uint8, place)) if place else self._line

    def _error(self, message: str, line: int | None = None) -> DataError:
        return DataError(f"{self._name}, line {self._line if line is None else line}: {message}")

    def _checked(self, text: bytearray, is_over: bool) -> tuple[int, Array | None]:
        """Return the end of the last whole row of a text, which begins with a row, and the bitmap of its row ends if it
        was made. Refuses misplaced quotes and line ends."""
        has_quotes = self._quote >= 0 and self._quote in text
        if not has_quotes and self._line_end == b"\n" and _CR not in text:
            return len(text) if is_over else text.rfind(b"\n") + 1, None
        if not text:
            return 0, None
        data = np.frombuffer(text, np.uint8)
        feeds = csv_bits.bits(data == _LF)
        returns = csv_bits.bits(data == _CR) if _CR in text else np.zeros_like(feeds)
        if has_quotes:
            outside = ~self._inside_quotes(text, data, feeds | returns, is_over)
            feeds, returns = feeds & outside, returns & outside
        if text[-1] == _CR and not is_over and csv_bits.last(returns) == len(text) - 1:
            # A line feed may follow. Whether CR alone ends lines is known only from the next byte.
            returns = csv_bits.without(returns, len(text) - 1)
        self._learn_line_end(feeds, returns)
        self._refuse_other_line_ends(text, feeds, returns)
        ends = returns if self._line_end == b"\r" else feeds
        return len(text) if is_over else csv_bits.last(ends) + 1, ends

    def _learn_line_end(self, feeds: Array, returns: Array) -> None:
        if self._line_end:
            return
        feed, back = csv_bits.first(feeds), csv_bits.first(returns)
        if back >= 0 and (feed < 0 or back < feed):
            self._line_end = b"\r\n" if feed == back + 1 else b"\r"
        elif feed >= 0:
            self._line_end = b"\n"

    def _refuse_other_line_ends(self, text: bytearray, feeds: Array, returns: Array) -> None:
        """Refuse line ends outside of quotes that differ from the first one."""
        if not self._line_end:
            return
        if self._line_end == b"\n":
            wrong = returns
        elif self._line_end == b"\r":
            wrong = feeds
        else:
            wrong = (feeds & ~csv_bits.after(returns)) | (returns & ~csv_bits.before(feeds))
        place = csv_bits.first(wrong)
        if place >= 0:
            raise self._error(
                f"{_SHOWN[bytes(text[place : place + 1])]} outside of quotes, where lines end in "
                f"{_SHOWN[self._line_end]}",
                self._line_at(text, place),
            )

    # ---- quotes --------------------------------------------------------------------------------------------------

    def _inside_quotes(self, text: bytearray, data: Array, line_ends: Array, is_over: bool) -> Array:
        """Bitmap of the bytes within quotes, opening quotes included.

        Refuses quotes that neither open nor close a field; a doubled one closes and opens it again.
        """
        mask = data == self._quote
        if self._escape != self._quote:
            mask = self._without_escaped(data, mask)
        quotes = csv_bits.bits(mask)
        within = csv_bits.inside(quotes)
        opening, closing = quotes & within, quotes & ~within
        edges = line_ends | csv_bits.bits(data == self._delimiter)
        again = csv_bits.after(closing) & opening if self._escape == self._quote else np.zeros_like(quotes)
        opens = csv_bits.after(edges, first=True) | again
        closes = csv_bits.before(edges | again)
        wrong = opening & ~opens
        places = [(csv_bits.first(wrong), "a quote in the middle of a field that has none at its beginning")]
        wrong = closing & ~closes
        end = len(text) - 1
        if csv_bits.last(wrong) == end:
            wrong = csv_bits.without(wrong, end)
        places.append((csv_bits.first(wrong), "text behind the quote that closes a field"))
        faults = [(place, message) for place, message in places if place >= 0]
        if faults:
            place, message = min(faults)
            raise self._error(f"{message}; {_ADVICE}", self._line_at(text, place))
        if is_over and int(within[end // 64]) >> end % 64 & 1:
            begun = csv_bits.last(opening & ~again)
            raise self._error("the quote that opens a field here is never closed", self._line_at(text, begun))
        return within

    def _without_escaped(self, data: Array, mask: Array) -> Array:
        """Return the mask of the quotes without an escape character before them, for finding fields."""
        quotes = np.flatnonzero(mask)
        escaped = _run_before(data, quotes, self._escape) % 2 == 1
        kept: Array = quotes[~escaped]
        outside = quotes[escaped][np.searchsorted(kept, quotes[escaped]) % 2 == 0]
        if len(outside):
            line = self._line + self._lines_of(data[: outside[0]])
            raise self._error(f"a quote in the middle of a field that has none at its beginning; {_ADVICE}", line)
        mask[quotes[escaped]] = False
        return mask

    def _plain_escapes(self, data: Array) -> Array:
        """Rewrite rows so that quotes are escaped by doubling them, for any dialect."""
        if self._escape == self._quote or not (data == self._escape).any() or not (data == self._quote).any():
            return data
        data = data.copy()
        kept = np.flatnonzero(self._without_escaped(data, data == self._quote))
        escapes = np.flatnonzero(data == self._escape)
        escapes = escapes[np.searchsorted(kept, escapes) % 2 == 1]
        follows = data[np.minimum(escapes + 1, len(data) - 1)]
        first = _run_before(data, escapes, self._escape) % 2 == 0
        # An escape character before any other character is literal, as in PostgreSQL.
        data[escapes[first & (follows == self._quote)]] = self._quote
        keep = np.ones(len(data), np.bool_)
        keep[escapes[first & (follows == self._escape)]] = False
        return data[keep]


def _run_before(data: Array, places: Array, byte: int) -> Array:
    """Number of occurrences of a byte directly before each position."""
    others = np.flatnonzero(data != byte)
    counts = np.searchsorted(others, places)
    last = np.where(counts > 0, others[np.maximum(counts - 1, 0)], -1) if len(others) else np.full(len(places), -1)
    run: Array = places - last - 1
    return run


def as_clause(text: str) -> str:
    """Convert a message of Arrow to a clause of another message; abbreviations keep their capitals.

    >>> as_clause("CSV parse error"), as_clause("Truncated compressed stream")
    ('CSV parse error', 'truncated compressed stream')
    """
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
