"""Functions of one text at a time: encodings, quoting, edit distances. Called once per distinct text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import DataError, InvalidText
from ....model.types import BOOLEAN, STRING, DataType
from ....model.vectors.vector import Const, Text, Vector
from ..distinct import as_kernel, per_distinct
from .text_characters import hex_encoded
from .text_pieces import over_entries
from .text_vectorized import masked, per_constant

_WORDS_OF_SQL = frozenset(
    ("all", "and", "as", "case", "cast", "else", "end", "from", "group", "in", "is", "join", "like", "not", "null",
     "or", "order", "select", "table", "then", "user", "using", "when", "where", "with")
)  # fmt: skip


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def encode(value: str | bytes, form: str) -> str:
    """Encode bytes as text: hex, base64 (lines of 76 characters) or escape."""
    data = _bytes(value)
    form = form.lower()
    if form == "hex":
        return data.hex()
    if form == "base64":
        whole = base64.b64encode(data).decode()
        return "\n".join(whole[i : i + 76] for i in range(0, len(whole), 76))
    if form == "escape":
        return "".join("\\\\" if b == 92 else chr(b) if 0 < b < 128 else f"\\{b:03o}" for b in data)
    raise InvalidText(f"there is no encoding '{form}'; there are hex, base64 and escape")


def _encoded(type_: DataType, value: Vector, form: Vector) -> Vector:
    if isinstance(form, Const) and form.value is not None and form.value.lower() == "hex":
        return over_entries(lambda result, bytes_: Text(result, hex_encoded(bytes_)), type_, value, ())
    return per_distinct(encode, type_, (value, form))


def decode(text: str, form: str) -> bytes:
    """The inverse of `encode`."""
    form = form.lower()
    try:
        if form == "hex":
            return bytes.fromhex(text)
        if form == "base64":
            return base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidText(f"'{text}' is not {form}") from None
    if form == "escape":
        return re.sub(rb"\\(\\|[0-3][0-7]{2})", _unescaped, text.encode())
    raise InvalidText(f"there is no encoding '{form}'; there are hex, base64 and escape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    return b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)])


def quote_literal(text: str | None) -> str | None:
    """Quote the text as an SQL literal."""
    return None if text is None else "'" + text.replace("'", "''") + "'"


def quote_nullable(text: str | None) -> str:
    """Quote the text as an SQL literal; NULL becomes the keyword."""
    return quote_literal(text) or "NULL"


def quote_ident(text: str) -> str:
    """Format the text as an SQL identifier, quoted if necessary."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", text) is not None and text not in _WORDS_OF_SQL
    return text if plain else '"' + text.replace('"', '""') + '"'


def formatted(form: str | None, *values: str | None) -> str | None:
    """`format`: %s a text, %I a name, %L a literal, %% a percent sign; %2$s names an argument."""
    if form is None:
        return None
    position = 0

    def piece(match: re.Match[str]) -> str:
        nonlocal position
        if match[0] == "%%":
            return "%"
        position = int(match["n"]) if match["n"] else position + 1
        if not 1 <= position <= len(values):
            raise DataError(f"format has no argument number {position}")
        value = values[position - 1]
        if match["kind"] == "L":
            shown = quote_nullable(value)
        elif match["kind"] == "I":
            if value is None:
                raise DataError("format: NULL is not an identifier for %I")
            shown = quote_ident(value)
        else:
            shown = value or ""
        width = int(match["width"] or 0)
        return shown.ljust(width) if match["left"] else shown.rjust(width)

    known = re.compile(r"%%|%(?:(?P<n>\d+)\$)?(?P<left>-)?(?P<width>\d+)?(?P<kind>[sIL])")
    if re.search(r"%(?!%|(?:\d+\$)?-?\d*[sIL])", form.replace("%%", "")):
        raise DataError("format supports %s, %I, %L and %%, no other character after %")
    return known.sub(piece, form)


def levenshtein(left: str, right: str) -> int:
    """Number of characters that must be inserted, deleted or replaced to change one text to the other."""
    before = list(range(len(right) + 1))
    for i, char in enumerate(left, 1):
        now = [i]
        for j, other in enumerate(right, 1):
            now.append(min(before[j] + 1, now[-1] + 1, before[j - 1] + (char != other)))
        before = now
    return before[-1]


def concat_ws(type_: DataType, separator: Vector, *values: Vector) -> Vector:
    """Concatenate the values that are not NULL, with a separator between them."""
    if isinstance(separator, Const) and separator.value is None:
        return Const(type_, None, len(separator))
    mark: Any = pa.scalar(separator.value) if isinstance(separator, Const) else separator.to_arrow()
    columns = [value.to_arrow() for value in values]
    # Arrow drops a row that has nothing to join.
    first, *others = columns
    is_empty = pc.is_null(first)
    for other in others:
        is_empty = pc.and_(is_empty, pc.is_null(other))
    columns[0] = pc.if_else(is_empty, "", first)
    joined = pc.binary_join_element_wise(*columns, mark, null_handling="skip")
    return Text(type_, masked(joined, separator.validity))


def ends_with(type_: DataType, value: Vector, suffix: Vector) -> Vector:
    """True if the text ends with the other."""
    return per_constant(BOOLEAN, value, (suffix,), lambda texts, end: pc.ends_with(texts, end))


def contains(type_: DataType, value: Vector, piece: Vector) -> Vector:
    """True if the text contains the other."""
    return per_constant(BOOLEAN, value, (piece,), lambda texts, needle: pc.match_substring(texts, needle))


def uuids(rows: int) -> Vector:
    """Random UUIDs of version 4."""
    words = np.random.default_rng().bytes(16 * rows)
    raw = np.frombuffer(words, np.uint8).reshape(rows, 16).copy()
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    digits = raw.tobytes().hex()
    texts = [digits[i : i + 32] for i in range(0, len(digits), 32)]
    return Text(STRING, pa.array([f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts]))


KERNELS: dict[str, Callable[..., Vector]] = {
    "encode": _encoded,
    "decode": as_kernel(decode),
    "quote_literal": as_kernel(quote_literal),
    "quote_nullable": as_kernel(quote_nullable, strict=False),
    "quote_ident": as_kernel(quote_ident),
    "format": as_kernel(formatted, strict=False),
    "levenshtein": as_kernel(levenshtein),
    "concat_ws": concat_ws,
    "ends_with": ends_with,
    "contains": contains,
}
