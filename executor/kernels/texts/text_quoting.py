"""Quoting of texts, and `format`, in whole columns.

A template of `format` is split once; its literal parts and the quoted arguments are joined row by row. Templates with
widths, and those that differ from row to row, are computed per distinct combination of arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from ....errors import DataError
from ....model import arrow_functions as pc
from ....model.types import DataType
from ....model.vectors.vector import Const, Text, Vector
from ..distinct import per_distinct
from .like_search import bytes_of
from .text_pieces import over_entries

_WORDS_OF_SQL: Final = frozenset(
    ("all", "and", "as", "case", "cast", "else", "end", "from", "group", "in", "is", "join", "like", "not", "null",
     "or", "order", "select", "table", "then", "user", "using", "when", "where", "with")
)  # fmt: skip
_PLAIN_NAME: Final = r"[a-z_][a-z0-9_$]*"
_PIECE: Final = re.compile(r"%%|%(?:(?P<n>\d+)\$)?(?P<left>-)?(?P<width>\d+)?(?P<kind>[sIL])")
_UNKNOWN: Final = re.compile(r"%(?!%|(?:\d+\$)?-?\d*[sIL])")


# ---- one text --------------------------------------------------------------------------------------------------------


def quote_literal(text: str) -> str:
    """Quote the text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_nullable(text: str | None) -> str:
    """Quote the text as an SQL literal; NULL becomes the keyword."""
    return "NULL" if text is None else quote_literal(text)


def quote_ident(text: str) -> str:
    """Format the text as an SQL identifier, quoted if necessary."""
    plain = re.fullmatch(_PLAIN_NAME, text) is not None and text not in _WORDS_OF_SQL
    return text if plain else '"' + text.replace('"', '""') + '"'


def formatted(form: str | None, *values: str | None) -> str | None:
    """`format`: %s a text, %I a name, %L a literal, %% a percent sign; %2$s names an argument."""
    if form is None:
        return None
    return "".join(
        _shown(part, None if isinstance(part, str) else values[part[0]]) for part in _parts(form, len(values))
    )


_Argument = tuple[int, str, int, bool]
"""The number of an argument from 0, its kind (s, I or L), its least width, and whether it is padded on the right."""


def _parts(form: str, arguments: int) -> list[str | _Argument]:
    """Split a template of `format` into literal texts and references to arguments."""
    if _UNKNOWN.search(form.replace("%%", "")):
        raise DataError("format supports %s, %I, %L and %%, no other character after %")
    parts: list[str | _Argument] = []
    end = position = 0
    for match in _PIECE.finditer(form):
        parts.append(form[end : match.start()])
        end = match.end()
        if match[0] == "%%":
            parts.append("%")
            continue
        position = int(match["n"]) if match["n"] else position + 1
        if not 1 <= position <= arguments:
            raise DataError(f"format has no argument number {position}")
        parts.append((position - 1, match["kind"], int(match["width"] or 0), bool(match["left"])))
    return [*parts, form[end:]]


def _shown(part: str | _Argument, value: str | None) -> str:
    if isinstance(part, str):
        return part
    _, kind, width, at_left = part
    if kind == "L":
        shown = quote_nullable(value)
    elif kind == "I":
        if value is None:
            raise DataError(_NO_NAME)
        shown = quote_ident(value)
    else:
        shown = value or ""
    return shown.ljust(width) if at_left else shown.rjust(width)


_NO_NAME: Final = "format: NULL is not an identifier for %I"


# ---- columns ---------------------------------------------------------------------------------------------------------


def literals(texts: pa.Array) -> pa.Array:
    """Quote texts as SQL literals; NULL stays."""
    return _between(texts, "'")


def _between(texts: pa.Array, mark: str) -> pa.Array:
    if bool((bytes_of(texts)[0] == ord(mark)).any()):
        texts = pc.replace_substring(texts, mark, mark + mark)
    return pc.binary_join_element_wise(mark, texts, mark, "")


def names(texts: pa.Array) -> pa.Array:
    """Format texts as SQL identifiers, quoted if necessary; NULL stays."""
    plain = pc.match_substring_regex(texts, rf"\A{_PLAIN_NAME}\z")
    reserved = pc.is_in(texts, value_set=pa.array(sorted(_WORDS_OF_SQL)))
    plain = pc.and_not(plain, reserved)
    return texts if pc.all(plain).as_py() else pc.if_else(plain, texts, _between(texts, '"'))


def _nullable(texts: pa.Array) -> pa.Array:
    return pc.fill_null(literals(texts), "NULL")


def _over_texts(kernel: Callable[[pa.Array], pa.Array]) -> Callable[..., Vector]:
    """Make a kernel (result type, then a vector) of a function of Arrow arrays."""
    return lambda type_, value: over_entries(lambda result, v: Text(result, kernel(v.to_arrow())), type_, value, ())


def format_texts(type_: DataType, form: Vector, *values: Vector) -> Vector:
    """Compute `format(template, values ...)`."""
    if not isinstance(form, Const):
        return per_distinct(formatted, type_, (form, *values), strict=False)
    if form.value is None or not len(form):
        return Const(type_, None, len(form))
    parts = _parts(form.value, len(values))
    if any(not isinstance(part, str) and part[2] for part in parts):
        return per_distinct(formatted, type_, (form, *values), strict=False)
    columns: list[Any] = [_written(part, values) for part in parts if part]
    if all(isinstance(column, str) for column in columns):
        return Const(type_, "".join(columns), len(form))
    return Text(type_, pc.binary_join_element_wise(*columns, ""))


def _written(part: str | _Argument, values: tuple[Vector, ...]) -> pa.Array | str:
    if isinstance(part, str):
        return part
    number, kind, _, _ = part
    if kind == "I" and values[number].has_nulls:
        raise DataError(_NO_NAME)
    texts = values[number].to_arrow().cast(pa.string())
    if kind == "s":
        return texts.fill_null("") if texts.null_count else texts
    return names(texts) if kind == "I" else _nullable(texts)


KERNELS: dict[str, Callable[..., Vector]] = {
    "quote_literal": _over_texts(literals),
    "quote_nullable": _over_texts(_nullable),
    "quote_ident": _over_texts(names),
    "format": format_texts,
}
