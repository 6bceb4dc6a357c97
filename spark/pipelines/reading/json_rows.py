"""JSON as rows of texts: an object per line, or, with `multiLine`, a file that holds one object or an array of objects.

    {"a": 1, "b": 1.10}     a = '1', b = '1.10'     numbers keep their digits
    {"a": "x", "c": [1]}    a = 'x', c = '[1]'      nested values keep their text
    {"a": 1, "a": 2}        malformed               a repeated key, at any depth
    {"a": 1} {"a": 2}       malformed               as is everything else that is not an object

The first pass (`scan_json`) finds the keys of all objects and the kinds of their values; the second (`json_rows`) makes
the batches. Lines are decoded in C down to their top level; values stay bytes until whole columns are made of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ....cluster.decoders import json_decoder
from ....errors import InterfaceError
from ....model.lazy_dataclass import dataclass
from .csv_rows import BATCH_ROWS
from .listing import LISTING_OPTIONS
from .raw_files import BOM, Span, can_seek, chunks

SPAN_BYTES: Final = 64 << 20
_ENCODINGS: Final = ("utf-8", "utf8")
_OBJECT: Final = json_decoder(dict[str, msgspec.Raw])
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_KINDS: Final = {"n": "null", '"': "text", "{": "nested", "[": "nested", "t": "boolean", "f": "boolean"}
_NULL: Final = msgspec.Raw(b"null")
_ARRAY: Final = json_decoder(list[msgspec.Raw])
_TEXT: Final = json_decoder(str)
Object: TypeAlias = Mapping[str, Any]
"""An object's values by key, each as its bytes in JSON."""


@dataclass(frozen=True, slots=True)
class ScannedJson:
    """A file: the keys of its objects in the order of their first appearance, with the kinds of their values, and its
    spans.

    Kinds are `integer`, `number`, `text`, `boolean`, `nested`.
    """

    uri: str
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()


def is_multi_line(options: Mapping[str, str]) -> bool:
    """The option `multiLine`; raises `InterfaceError` for unknown options."""
    multi_line = False
    for name, value in options.items():
        key = name.lower()
        if key in LISTING_OPTIONS or (key in ("encoding", "charset") and value.lower() in _ENCODINGS):
            continue
        if key != "multiline":
            raise InterfaceError(
                f"--option {name}={value}: JSON is in UTF-8, and multiLine is its only option; other files need a "
                "DataFrame of your own for ingest()"
            )
        if value.lower() not in ("true", "false"):
            raise InterfaceError(f"--option multiLine={value}: it is true or false")
        multi_line = value.lower() == "true"
    return multi_line


# ---- first pass ------------------------------------------------------------------------------------------------------


def scan_json(uri: str, multi_line: bool, needs_kinds: bool) -> ScannedJson:
    """Finds the keys of all objects of a file; any other record has none, and becomes a malformed row."""
    kinds: dict[str, set[str]] = {}
    spans: list[Span] = []
    at, line = 0, 1
    for text in _pieces(uri, None, multi_line):
        rows, bad = objects(text, multi_line)
        records = len(rows) + len(bad)
        for key in dict.fromkeys(chain.from_iterable(rows)):
            found = kinds.setdefault(key, set())
            if needs_kinds:
                found |= _kinds(_column(rows, key))
        last = spans[-1] if spans else None
        if last is not None and (not can_seek(uri, "utf-8") or at + len(text) - last.start <= SPAN_BYTES):
            spans[-1] = Span(uri, last.start, at + len(text), last.records + records, last.line)
        else:
            spans.append(Span(uri, at, at + len(text), records, line))
        at += len(text)
        line += text.count(b"\n")
    return ScannedJson(uri, {key: frozenset(found) for key, found in kinds.items()}, tuple(spans))


def _kinds(values: pa.Array) -> set[str]:
    texts = pc.drop_null(values.cast(pa.string()))
    firsts = pc.unique(pc.utf8_slice_codeunits(texts, 0, 1)).to_pylist()
    found = {_KINDS.get(first, "number") for first in firsts} - {"null"}
    if "number" in found:
        numbers = texts.filter(pc.match_substring_regex(texts, "^[-0-9NI]"))
        whole = pc.match_substring_regex(numbers, "^-?[0-9]+$")
        found |= {"integer"} if pc.any(whole).as_py() else set()
        found -= {"number"} if pc.all(whole).as_py() else set()
    return found


def _pieces(uri: str, span: Span | None, multi_line: bool) -> Iterator[bytes]:
    """Whole lines, or the whole file."""
    rest = b""
    for piece in chunks(uri, "utf-8", span):
        rest += piece
        if not multi_line and (end := rest.rfind(b"\n") + 1):
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def objects(text: bytes, multi_line: bool) -> tuple[list[Object], list[bytes]]:
    """The objects of a text of whole lines or of a whole file, and the texts of all other records."""
    text = text.removeprefix(BOM)
    if not multi_line and (found := _all_good(text)) is not None:
        return found, []
    rows: list[Object] = []
    bad: list[bytes] = []
    for record in _records(text, multi_line):
        one = object_of(record)
        if one is None:
            bad.append(record)
        else:
            rows.append(one)
    return rows, bad


def _all_good(text: bytes) -> list[Object] | None:
    """The objects of lines that all contain one without repeated keys; None if some do not, or may not."""
    try:
        text.decode()
        found: list[Object] = [*_OBJECT.decode_lines(text)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if _colons(text) == sum(map(len, found)) else None


def _colons(text: bytes) -> int:
    """The number of keys of the objects of a text, at all depths, counted by the colons outside texts."""
    return _STRINGS.sub(b"", text).count(b":")


def _records(text: bytes, multi_line: bool) -> Iterator[bytes]:
    """The texts of the records, which should be objects."""
    if not multi_line:
        # RFC 8259 allows only these blanks.
        lines = (line.strip(b" \t\r") for line in text.split(b"\n"))
        yield from filter(None, lines)
        return
    text = text.strip(b" \t\r\n")
    if not text.startswith(b"["):
        yield from [text] if text else []
        return
    try:
        elements = _ARRAY.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        yield text
        return
    yield from map(bytes, elements)


def object_of(text: bytes) -> Object | None:
    """The values of an object by key, as bytes of JSON; None for anything else, and for an object with a repeated key.

    >>> {key: bytes(value) for key, value in object_of(b'{"a": 1.10, "b": [1]}').items()}
    {'a': b'1.10', 'b': b'[1]'}
    >>> object_of(b'{"a": 1, "a": 2}') is None
    True
    """
    try:
        text.decode()
        values = _OBJECT.decode(text)
        if _colons(text) != len(values):
            json.loads(text, object_pairs_hook=_unique)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _with_constants(text)
    return values


def _with_constants(text: bytes) -> Object | None:
    """An object with NaN or Infinity, which Python and Spark write although JSON has no such numbers."""
    if b"NaN" not in text and b"Infinity" not in text:
        return None
    try:
        decoded = json.loads(text, object_pairs_hook=_unique, parse_float=_Number, parse_int=_Number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    return {key: msgspec.Raw(_encoded(value)) for key, value in decoded.items()}


class _Number(str):
    """The digits of a number."""


def _encoded(value: Any) -> bytes:
    if isinstance(value, _Number):
        return value.encode()
    return json.dumps(value, ensure_ascii=False).encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("repeated key")
    return values


# ---- second pass -----------------------------------------------------------------------------------------------------


def json_rows(span: Span, columns: Sequence[str], multi_line: bool) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Batches of a span's objects, with the texts of all other records."""
    for text in _pieces(span.uri, span, multi_line):
        rows, bad = objects(text, multi_line)
        texts = [one.decode("utf-8", "backslashreplace") for one in bad]
        for start in range(0, len(rows), BATCH_ROWS):
            yield _batch(rows[start : start + BATCH_ROWS], columns), texts
            texts = []
        if texts:
            yield _batch([], columns), texts


def _batch(rows: Sequence[Object], columns: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_texts(_column(rows, name)) for name in columns], names=list(columns))


def _column(rows: Sequence[Object], name: str) -> pa.Array:
    return pa.array([bytes(row.get(name, _NULL)) for row in rows], pa.binary())


def _texts(values: pa.Array) -> pa.Array:
    """JSON values as texts: a text without its quotes and escapes, null as NULL, all others unchanged."""
    texts = values.cast(pa.string())
    texts = pc.if_else(pc.equal(texts, "null"), None, texts)
    quoted = pc.fill_null(pc.starts_with(texts, '"'), False)
    if not pc.any(quoted).as_py():
        return texts
    inner = pc.utf8_slice_codeunits(texts, 1, -1)
    escaped = pc.and_(quoted, pc.fill_null(pc.match_substring(texts, "\\"), False))
    found = pc.if_else(quoted, inner, texts)
    if pc.any(escaped).as_py():
        # Escapes are rare: these values are decoded one by one.
        decoded = [_TEXT.decode(text) for text in texts.filter(escaped).to_pylist()]
        found = pc.replace_with_mask(found, escaped, pa.array(decoded, pa.string()))
    return found
