"""First pass over CSV: the header and the records of each file, found in its bytes.

    id,note⏎        header
    1,"first⏎       a record, whose line break stands in quotes
    2,second"⏎
    3,c⏎            a record

A field is quoted if it begins with a quote; a quote within another field is a character like any other. Records end at
line breaks outside quotes; an empty line is a record of a file of one column, and none of any other. A quote that is
never closed, or has text behind it, is an error that names the line: a parser that goes on takes the rest of the file
for one text. Large files are cut at record boundaries, so several tasks read one.

Quotes are found by whole chunks. Where all of them stand at the ends of fields, every second one closes a field, and a
line break is outside quotes if an even number of quotes precedes it. Chunks that have other quotes are matched field by
field.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pacsv

from ....errors import DataError, InterfaceError
from .listing import LISTING_OPTIONS, path_of
from .raw_files import BOM, CHUNK_BYTES, Span, can_seek, check_utf8, chunks, python_encoding

SPAN_BYTES: Final = 64 << 20
"""About what a task reads of a file."""
_OPTIONS: Final = ("header", "sep", "quote", "escape", "nullValue", "encoding", "multiLine")
_ALIASES: Final = {"delimiter": "sep", "charset": "encoding", "multiline": "multiLine", "nullvalue": "nullValue"}
_CR, _LF = 13, 10
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How CSV is written: `quote` and `escape` are empty where there is none."""

    header: bool = True
    sep: str = ","
    quote: str = '"'
    escape: str = ""
    null: str = ""
    encoding: str = "utf-8"

    def parse_options(self, one_column: bool, on_invalid: object = None) -> pacsv.ParseOptions:
        """Of pyarrow's parser."""
        return pacsv.ParseOptions(
            delimiter=self.sep,
            quote_char=self.quote or False,
            double_quote=bool(self.quote) and not self.escape,
            escape_char=self.escape or False,
            newlines_in_values=True,
            ignore_empty_lines=not one_column,
            invalid_row_handler=on_invalid,
        )


def dialect_of(options: Mapping[str, str], sep: str) -> Dialect:
    """The dialect that options name; `sep` is the separator where they do not.

    Raises `InterfaceError` for an option that is not known, or a value that would lose something.
    """
    found: dict[str, str] = {}
    for name, value in options.items():
        key = _ALIASES.get(name.lower(), name.lower())
        if key in LISTING_OPTIONS:
            continue
        if key not in _OPTIONS:
            raise InterfaceError(
                f"--option {name}: CSV is read with {', '.join(_OPTIONS)}; files of another dialect are a DataFrame of "
                "your own for ingest()"
            )
        found[key] = value
    if found.pop("multiLine", "true").lower() != "true":
        raise InterfaceError("--option multiLine=false would split texts at their line breaks; leave it out")
    header = found.get("header", "true").lower()
    if header not in ("true", "false"):
        raise InterfaceError(f"--option header={header}: it is true or false")
    quote, escape = found.get("quote", '"'), found.get("escape", "")
    escape = "" if escape in (quote, "\0") else escape
    for name, value, least in (("sep", found.get("sep", sep), 1), ("quote", quote, 0), ("escape", escape, 0)):
        if not least <= len(value.replace("\\t", "\t").encode()) <= 1 or value in ("\r", "\n"):
            raise InterfaceError(f"--option {name}={value!r}: one character of ASCII is needed")
    return Dialect(
        header == "true",
        found.get("sep", sep).replace("\\t", "\t"),
        quote,
        escape,
        found.get("nullValue", ""),
        python_encoding(found.get("encoding")),
    )


@dataclass(frozen=True, slots=True)
class ScannedCsv:
    """A file: the names of its columns, empty if it holds nothing, and its records in spans."""

    uri: str
    columns: tuple[str, ...]
    spans: tuple[Span, ...]


def scan_csv(uri: str, dialect: Dialect) -> ScannedCsv:
    """Find header and records of a file.

    Raises `DataError` naming the line of an unclosed quote, of text behind a closing quote, of bytes that are not of
    the encoding, or of two columns of one name.
    """
    scan = _Scan(uri, dialect)
    for text, ends, rest in _whole_records(scan):
        scan.take(text, checked_ends(text, ends, rest, scan))
    return scan.result()


class _Scan:
    """The state of a scan: where it is in the content, and what it has found."""

    def __init__(self, uri: str, dialect: Dialect):
        self.uri = uri
        self.dialect = dialect
        self.line = 1
        self._at = 0
        self._columns: tuple[str, ...] = ()
        self._spans: list[Span] = []
        self._cuts = can_seek(uri, dialect.encoding)

    def take(self, text: bytes, ends: Positions) -> None:
        """Take in some whole records, which end at `ends`."""
        if self.dialect.encoding == "utf-8":
            check_utf8(text, self.uri, self.line)
        starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        filled = _filled(text, starts, ends)
        begin = 0
        if not self._columns:
            begin = self._take_header(text, starts, ends, filled)
        if self._columns:
            counted = filled[starts >= begin] if len(self._columns) > 1 else starts[starts >= begin]
            self._add(begin, len(text), int(np.count_nonzero(counted) if counted.dtype == bool else len(counted)), text)
        self.line += _lines(text)
        self._at += len(text)

    def _take_header(self, text: bytes, starts: Positions, ends: Positions, filled: npt.NDArray[np.bool_]) -> int:
        """Read the first record; returns where the records behind it begin."""
        first = np.flatnonzero(filled)[:1]
        if not len(first):
            return 0
        start, end = int(starts[first[0]]), int(ends[first[0]])
        if self._at == 0 and text.startswith(BOM):
            start = max(start, len(BOM))
        fields = self._fields(text[start:end])
        if not self.dialect.header:
            self._columns = tuple(f"_c{place}" for place in range(len(fields)))
            return start
        self._columns = tuple(name or f"_c{place}" for place, name in enumerate(fields))
        for name in self._columns:
            if self._columns.count(name) > 1:
                raise DataError(
                    f"{path_of(self.uri)}, line {self.line}: column {name} is there twice; read the file with "
                    "--option header=false"
                )
        return end

    def _fields(self, record: bytes) -> list[str]:
        text = io.StringIO(record.decode(), newline="")
        rows = csv.reader(
            text,
            delimiter=self.dialect.sep,
            quotechar=self.dialect.quote or None,
            escapechar=self.dialect.escape or None,
            doublequote=not self.dialect.escape,
            quoting=csv.QUOTE_MINIMAL if self.dialect.quote else csv.QUOTE_NONE,
        )
        return next(rows, [])

    def _add(self, begin: int, end: int, records: int, text: bytes) -> None:
        start, stop = self._at + begin, self._at + end
        last = self._spans[-1] if self._spans else None
        if last is not None and (not self._cuts or stop - last.start <= SPAN_BYTES):
            self._spans[-1] = Span(self.uri, last.start, stop, last.records + records, last.line)
        else:
            self._spans.append(Span(self.uri, start, stop, records, self.line + _lines(text[:begin])))

    def result(self) -> ScannedCsv:
        """What was found."""
        return ScannedCsv(self.uri, self._columns, tuple(span for span in self._spans if span.records))


def _whole_records(scan: _Scan) -> Iterator[tuple[bytes, Positions, int]]:
    """The content in pieces that end where records end, with what `outside_quotes` says of them."""
    rest = b""
    least = 0
    for piece in chunks(scan.uri, scan.dialect.encoding):
        rest += piece
        if len(rest) < least:
            continue
        ends, _ = outside_quotes(rest, scan.dialect)
        # \r may be the first half of a line break.
        whole = ends[ends < len(rest)] if rest.endswith(b"\r") else ends
        if len(whole):
            end = int(whole[-1])
            yield rest[:end], whole, end
            rest = rest[end:]
        # A text without end is not searched from its beginning for each piece.
        least = 2 * len(rest) if len(rest) > CHUNK_BYTES else 0
    if rest:
        yield rest, *outside_quotes(rest, scan.dialect)


# ---- records ---------------------------------------------------------------------------------------------------------


def checked_ends(text: bytes, ends: Positions, rest: int, scan: _Scan) -> Positions:
    """Where the records of a text end, the last one too, which may lack its line break.

    Raises `DataError` for a quote at `rest` that is not closed, or has text behind it.
    """
    if rest < len(text):
        place = f"{path_of(scan.uri)}, line {scan.line + _lines(text[:rest])}"
        closing = _quoted(scan.dialect).match(text, rest)
        if closing is not None and closing.end() < len(text):
            raise DataError(f"{place}: text behind the closing quote of a field; a quote within a text is doubled")
        raise DataError(f"{place}: a quote is opened and never closed")
    return ends if len(ends) and ends[-1] == len(text) else np.append(ends, len(text))


def outside_quotes(text: bytes, dialect: Dialect) -> tuple[Positions, int]:
    """Where lines end outside quotes, and the place of the first quoted field that does not end; else the length."""
    array = np.frombuffer(text, np.uint8)
    breaks = np.flatnonzero((array == _LF) | (array == _CR))
    rest = len(text)
    if dialect.quote and dialect.quote.encode() in text:
        fast = None if dialect.escape else _paired(array, dialect)
        if fast is None:
            begins, closes, rest = _matched(text, dialect)
        else:
            begins, closes, rest = fast
        inside = np.searchsorted(begins, breaks, "right") > np.searchsorted(closes, breaks, "right")
        breaks = breaks[~inside & (breaks < rest)]
    first_half = (array[breaks] == _CR) & (array[np.minimum(breaks + 1, len(text) - 1)] == _LF)
    return breaks[~first_half] + 1, rest


def _paired(array: npt.NDArray[np.uint8], dialect: Dialect) -> tuple[Positions, Positions, int] | None:
    """Opening and closing quotes, by their parity; None if some stand elsewhere than at the ends of fields."""
    quote = ord(dialect.quote)
    quotes = np.flatnonzero(array == quote)
    opening, closing = quotes[::2], quotes[1::2]
    edges = np.zeros(256, np.bool_)
    edges[[ord(dialect.sep), _LF, _CR]] = True
    before = np.where(opening > 0, array[opening - 1], _LF)
    # A doubled quote closes a field and opens it again.
    doubled = np.zeros(len(opening), np.bool_)
    doubled[1:] = opening[1:] == closing[: len(opening) - 1] + 1
    again = np.zeros(len(closing), np.bool_)
    again[: len(opening) - 1] = doubled[1 : len(closing) + 1]
    last = np.minimum(closing + 1, len(array) - 1)
    ends = edges[array[last]] | (closing == len(array) - 1) | again
    marked = len(array) >= 3 and array[0] == BOM[0] and len(opening) and opening[0] == len(BOM)
    starts = edges[before] | doubled
    if marked:
        starts[0] = True
    if not starts.all() or not ends.all():
        return None
    if len(opening) == len(closing):
        return opening, closing, len(array)
    # The last field is open; it began with the last opening quote that is no half of a doubled one.
    begin = opening[np.flatnonzero(~doubled)[-1]]
    kept = opening < begin
    return opening[kept], closing[closing < begin], int(begin)


def _matched(text: bytes, dialect: Dialect) -> tuple[Positions, Positions, int]:
    """The same, field by field: quotes within fields that have none around them are characters."""
    begins: list[int] = []
    closes: list[int] = []
    field, edges = _quoted(dialect), (dialect.sep.encode(), b"\n", b"\r", b"")
    start = _start(dialect)
    at = len(BOM) if text.startswith(BOM) else 0
    while (found := start.search(text, at)) is not None:
        begin = found.start()
        whole = field.match(text, begin)
        if whole is None or text[whole.end() : whole.end() + 1] not in edges:
            return np.array(begins, np.int64), np.array(closes, np.int64), begin
        begins.append(begin)
        closes.append(whole.end() - 1)
        at = whole.end()
    return np.array(begins, np.int64), np.array(closes, np.int64), len(text)


def _start(dialect: Dialect) -> re.Pattern[bytes]:
    """A quote with which a field begins."""
    sep, quote = re.escape(dialect.sep.encode()), re.escape(dialect.quote.encode())
    return re.compile(rb"(?:(?<![^" + sep + rb"\r\n])|(?<=\A\xef\xbb\xbf))" + quote)


def _quoted(dialect: Dialect) -> re.Pattern[bytes]:
    """A quoted field, from its opening to its closing quote."""
    quote, escape = re.escape(dialect.quote.encode()), re.escape(dialect.escape.encode())
    if dialect.escape:
        inner = rb"(?:[^" + quote + escape + rb"]++|" + escape + rb"(?s:.))*+"
    else:
        inner = rb"(?:[^" + quote + rb"]++|" + quote + quote + rb")*+"
    return re.compile(quote + inner + quote)


def _filled(text: bytes, starts: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
    """Which records are more than a line break."""
    array = np.frombuffer(text, np.uint8)
    size = ends - starts
    if not len(ends):
        return np.zeros(0, np.bool_)
    firsts = array[np.minimum(starts, len(array) - 1)]
    seconds = array[np.minimum(starts + 1, len(array) - 1)]
    empty = (size == 1) & ((firsts == _LF) | (firsts == _CR)) | (size == 2) & (firsts == _CR) & (seconds == _LF)
    filled: npt.NDArray[np.bool_] = ~empty & (size > 0)
    if text.startswith(BOM):
        filled[0] = bool(len(text[len(BOM) : int(ends[0])].strip(b"\r\n")))
    return filled


def _lines(text: bytes) -> int:
    return text.count(b"\n") or text.count(b"\r")
