"""First pass over CSV: finds the header and the records of each file in its bytes.

    id,note⏎        header
    1,"first⏎       a record with a line break inside quotes
    2,second"⏎
    3,c⏎            a record

`executor.files.csv_text` parses the text, as it does for `COPY`: it finds the ends of records, and rejects ambiguous
input. An empty line is a record in a file of one column, and not in any other. Large files are split at record
boundaries, so several tasks read one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from ....errors import DataError, InterfaceError
from ....executor.files.csv_bytes import Pieces
from ....executor.files.csv_files import split_row
from ....executor.files.csv_text import Block, CsvText, Dialect
from ....model.lazy_dataclass import dataclass
from .listing import LISTING_OPTIONS, path_of
from .raw_files import BOM, UTF8_ADVICE, Span, can_seek, chunks, python_encoding

SPAN_BYTES: Final = 64 << 20
"""Approximate number of bytes of a file that a task reads."""
BLOCK_BYTES: Final = 4 << 20
_OPTIONS: Final = ("header", "sep", "quote", "escape", "nullValue", "encoding", "multiLine")
_LF, _CR = 10, 13
_ALIASES: Final = {"delimiter": "sep", "charset": "encoding", "multiline": "multiLine", "nullvalue": "nullValue"}


def dialect_of(options: Mapping[str, str], sep: str) -> Dialect:
    """The dialect defined by options; `sep` is the separator if they have none.

    Raises `InterfaceError` for an unknown option, or a value that would lose data.
    """
    found: dict[str, str] = {}
    for name, value in options.items():
        key = _ALIASES.get(name.lower(), name.lower())
        if key in LISTING_OPTIONS:
            continue
        if key not in _OPTIONS:
            raise InterfaceError(
                f"--option {name}: CSV is read with {', '.join(_OPTIONS)}; another dialect needs a DataFrame of "
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
        delimiter=found.get("sep", sep).replace("\\t", "\t"),
        quote=quote,
        escape=escape or quote,
        null=found.get("nullValue", ""),
        header=header == "true",
        encoding=python_encoding(found.get("encoding")),
    )


@dataclass(frozen=True, slots=True)
class ScannedCsv:
    """A file: the names of its columns, empty if it holds nothing, and its records in spans."""

    uri: str
    columns: tuple[str, ...]
    spans: tuple[Span, ...]


def scan_csv(uri: str, dialect: Dialect) -> ScannedCsv:
    """Finds the header and the records of a file.

    Raises `DataError` with the line of the fault: a misplaced quote or line end, bytes that are not in the encoding, or
    two columns of one name.
    """
    scan = _Scan(uri, dialect)
    for block in csv_blocks(uri, dialect, scan.skip_mark(chunks(uri, dialect.encoding))):
        scan.add_block(block)
    return scan.result()


def csv_blocks(uri: str, dialect: Dialect, pieces: Iterator[bytes], line: int = 1) -> Iterator[Block]:
    """The rows of a text that begins at a record on `line` of its file, in checked blocks."""
    text = CsvText(path_of(uri), Pieces(pieces), dialect, line, BLOCK_BYTES, UTF8_ADVICE)
    return text.blocks()


class _Scan:
    """The state of a scan: its position in the content, and the records found so far."""

    def __init__(self, uri: str, dialect: Dialect):
        self.uri = uri
        self.dialect = dialect
        self._at = 0
        self._columns: tuple[str, ...] = ()
        self._spans: list[Span] = []
        self._cuts = can_seek(uri, dialect.encoding)

    def skip_mark(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The content without its byte order mark."""
        begin = b""
        while len(begin) < len(BOM) and (piece := next(pieces, b"")):
            begin += piece
        if begin.startswith(BOM):
            self._at = len(BOM)
        yield begin.removeprefix(BOM)
        yield from pieces

    def add_block(self, block: Block) -> None:
        """Adds some whole records."""
        begin, line = 0, block.first_line
        if not self._columns:
            begin, line = self._take_header(block)
        if self._columns and begin < block.size:
            self._add(begin, block.size, block.count_rows(begin, with_empty=len(self._columns) == 1), line)
        self._at += block.size

    def _take_header(self, block: Block) -> tuple[int, int]:
        """Reads the first record; returns the position after it, in bytes of the file, and its line."""
        filled = np.flatnonzero((block.data != _LF) & (block.data != _CR))
        start = int(filled[0]) if len(filled) else block.size
        rest = Block(block.data[start:], block.first_line + start // max(1, len(block.line_end)))
        if not len(filled):
            return block.size, block.first_line
        fields, behind = split_row(rest, self.dialect)
        if not self.dialect.header:
            self._columns = tuple(f"_c{place}" for place in range(len(fields)))
            return start, rest.first_line
        self._columns = tuple(name or f"_c{place}" for place, name in enumerate(fields))
        for name in self._columns:
            if self._columns.count(name) > 1:
                raise DataError(
                    f"{path_of(self.uri)}, line {rest.first_line}: there are two columns {name}; read the file with "
                    "--option header=false"
                )
        return block.end_of_row(start), behind.first_line

    def _add(self, begin: int, end: int, records: int, line: int) -> None:
        start, stop = self._at + begin, self._at + end
        last = self._spans[-1] if self._spans else None
        if last is not None and (not self._cuts or stop - last.start <= SPAN_BYTES):
            self._spans[-1] = Span(self.uri, last.start, stop, last.records + records, last.line)
        else:
            self._spans.append(Span(self.uri, start, stop, records, line))

    def result(self) -> ScannedCsv:
        """The header and the spans of records."""
        return ScannedCsv(self.uri, self._columns, tuple(span for span in self._spans if span.records))
