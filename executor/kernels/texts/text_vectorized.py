"""Texts: patterns, case, searching. Lengths and positions count characters, positions from 1.

The kernels run over Arrow strings. If possible, the evaluator passes dictionaries instead of columns, so that each
distinct text is processed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ....errors import DataError
from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array, arrow_scalar, fill_nulls, numpy_array
from ....model.lazy_dataclass import dataclass
from ....model.types import BOOLEAN, DataType
from ....model.vectors.vector import Array, Const, Dict, Flat, Text, Vector
from ..byte_rows import masked
from ..distinct import python_values
from ..groups.segments import segments
from ..numbers.bounded_integers import joined_validity
from .like_search import bytes_of, contain_in_order, places
from .regex_matches import is_ascii
from .text_slices import lengths_of, prefixes

_MANY = 512
"""Number of texts from which on `texts.like_search` is faster than Arrow's row-by-row kernels."""


def arrow(vector: Vector) -> pa.Array:
    """Return the vector as Arrow strings (a dictionary is decoded)."""
    return vector.to_arrow()


def _bools(array: pa.Array, validity: Array | None) -> Vector:
    if array.null_count:
        array = fill_nulls(array, False)
    return Flat(BOOLEAN, numpy_array(array), validity)


def _ints(type_: DataType, array: pa.Array, validity: Array | None) -> Vector:
    if array.null_count:
        array = fill_nulls(array, 0)
    return Flat(type_, numpy_array(array).astype(type_.dtype, copy=False), validity)


# ---- LIKE ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed LIKE pattern.

    `needle` is the longest run of plain characters between wildcards ("" for none). `shape` classifies the pattern:
    equals, prefix, suffix, infix, pieces or regex. A pattern of the shape `pieces` has no `_`; `runs` are its plain
    runs between `%`, the first and last of them anchored (and maybe "").
    """

    shape: str
    needle: str
    regex: str
    runs: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def parse_pattern(pattern: str) -> Pattern:
    """Parse a LIKE pattern: `%` any text, `_` one character, backslash makes the next character plain.

    >>> parse_pattern("%green%").shape, parse_pattern("a%b_").needle
    ('infix', 'a')
    """
    parts: list[str] = [""]  # runs of plain characters, with % and _ as separate entries
    wild: list[bool] = [False]
    escaped = False
    for char in pattern:
        if not escaped and char == "\\":
            escaped = True
            continue
        is_wild = char in "%_" and not escaped
        if is_wild or wild[-1]:
            parts.append(char)
            wild.append(is_wild)
        else:
            parts[-1] += char
        escaped = False
    if escaped:
        raise DataError(f"the LIKE pattern {pattern!r} ends in an escape character with nothing to escape")
    regex = "".join({"%": ".*", "_": "."}[p] if w else re.escape(p) for p, w in zip(parts, wild, strict=True))
    plain = [p for p, w in zip(parts, wild, strict=True) if not w and p]
    signature = "".join(p if w else ("x" if p else "") for p, w in zip(parts, wild, strict=True))
    signature = re.sub("%+", "%", signature)
    shape = {"": "equals", "x": "equals", "x%": "prefix", "%x": "suffix", "%x%": "infix"}.get(signature, "regex")
    runs: tuple[str, ...] = ()
    if not any(w and p == "_" for p, w in zip(parts, wild, strict=True)) and "%" in signature:
        runs = tuple(_runs(parts, wild))
        shape = "pieces" if shape == "regex" else shape
    return Pattern(shape, max(plain, key=len, default=""), f"(?s)^{regex}$", runs)


def _runs(parts: list[str], wild: list[bool]) -> list[str]:
    """Return the plain runs between wildcards, an empty one at an end that has a wildcard."""
    runs = [p for p, w in zip(parts, wild, strict=True) if p and not w]
    if wild[-1]:
        runs.append("")
    return runs if parts[0] else ["", *runs]


def like(value: Vector, pattern: Vector, ignore_case: bool = False) -> Vector:
    """`value LIKE pattern`, or ILIKE."""
    validity = joined_validity(value, pattern)
    if validity is not None and not validity.any():
        return Const(BOOLEAN, None, len(value))
    if isinstance(pattern, Const):
        return _bools(match(arrow(value), pattern.value, ignore_case), validity)
    texts = arrow(value)
    result = np.zeros(len(value), np.bool_)
    encoded = pc.dictionary_encode(arrow(pattern))
    codes = numpy_array(fill_nulls(encoded.indices, -1))
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code if validity is None else (codes == code) & validity)
        if len(rows):
            result[rows] = numpy_array(match(texts.take(arrow_array(rows)), text, ignore_case))
    return Flat(BOOLEAN, result, validity)


def match(texts: pa.Array, pattern: str, ignore_case: bool = False) -> pa.Array:
    """Return a mask of texts that match a LIKE pattern: an Arrow boolean array."""
    parsed = parse_pattern(pattern)
    if parsed.runs and not ignore_case and len(texts) >= _MANY and pa.types.is_string(texts.type):
        prefix, *pieces, suffix = parsed.runs
        return arrow_array(contain_in_order(texts, pieces, prefix, suffix), mask=_null_mask(texts))
    simple = _SIMPLE.get(parsed.shape)
    if simple is not None and not ignore_case:
        return simple(texts, parsed.needle)
    options = re_options(ignore_case)
    if len(parsed.needle) < 2 or ignore_case:
        return pc.match_substring_regex(texts, parsed.regex, **options)
    # A substring search is several times faster than the regex engine, and drops most rows.
    candidates = pc.match_substring(texts, parsed.needle)
    rows = pc.indices_nonzero(candidates)
    if len(rows) == len(texts):
        return pc.match_substring_regex(texts, parsed.regex)
    result = numpy_array(fill_nulls(candidates, False)).copy()
    found = pc.match_substring_regex(texts.take(rows), parsed.regex)
    result[numpy_array(rows)] = numpy_array(found)
    return arrow_array(result)


def _null_mask(texts: pa.Array) -> Array | None:
    return numpy_array(texts.is_null()) if texts.null_count else None


def re_options(ignore_case: bool) -> dict[str, Any]:
    """Return the keyword arguments for Arrow's regex kernels."""
    return {"ignore_case": True} if ignore_case else {}


_SIMPLE: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "equals": lambda texts, needle: pc.equal(texts, needle),
    "prefix": lambda texts, needle: pc.starts_with(texts, needle),
    "suffix": lambda texts, needle: pc.ends_with(texts, needle),
    "infix": lambda texts, needle: pc.match_substring(texts, needle),
}


# ---- whole texts ---------------------------------------------------------------------------------------------------


def concat(type_: DataType, *values: Vector) -> Vector:
    """`||`: NULL if any part is."""
    separator = arrow_scalar("" if type_.arrow == pa.string() else b"", type_.arrow)
    return Text(type_, pc.binary_join_element_wise(*(arrow(v) for v in values), separator))


def trim(name: str, type_: DataType, value: Vector, characters: Vector | None = None) -> Vector:
    """trim, ltrim or rtrim: remove blanks, or any of `characters`, at the ends."""
    kernel = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[name]
    if characters is None:
        return Text(type_, kernel(arrow(value), " "))
    return per_constant(type_, value, (characters,), lambda texts, chars: kernel(texts, chars) if chars else texts)


def replace(type_: DataType, value: Vector, old: Vector, new: Vector) -> Vector:
    """Replace every occurrence of `old`; an empty `old` occurs nowhere."""

    def kernel(texts: pa.Array, before: str, after: str) -> pa.Array:
        return pc.replace_substring(texts, before, after) if before else texts

    return per_constant(type_, value, (old, new), kernel)


def strpos(type_: DataType, value: Vector, part: Vector) -> Vector:
    """Position of the first occurrence of `part`, from 1; 0 if there is none."""
    return per_constant(type_, value, (part,), _find)


def _find(texts: pa.Array, part: str) -> pa.Array:
    found = np.zeros(len(texts), np.int64)
    if not part:
        return pa.array(found + 1)
    data, begins = bytes_of(texts)
    piece = part.encode()
    occurrences = places(data, piece)
    # The first occurrence behind the beginning of each row, unless it begins in a later row or continues in it.
    first = np.searchsorted(occurrences, begins[:-1])
    at = occurrences.take(first, mode="clip") if len(occurrences) else np.zeros(len(texts), np.int64)
    rows = np.flatnonzero((first < len(occurrences)) & (at + len(piece) <= begins[1:]))
    found[rows] = prefixes(texts, rows, at[rows] - begins[rows]) + 1
    return pa.array(found)


def starts_with(type_: DataType, value: Vector, prefix: Vector) -> Vector:
    """True if the text starts with the other."""
    return per_constant(type_, value, (prefix,), lambda texts, start: pc.starts_with(texts, start))


def per_constant(type_: DataType, value: Vector, others: tuple[Vector, ...], kernel: Callable[..., pa.Array]) -> Vector:
    """Apply a kernel whose further arguments must be constants: once if they are, else once per distinct combination.

    The kernel takes an Arrow array of texts and the constants, and returns an array of booleans, integers or texts; its
    result for a NULL does not matter. Of a dictionary, it gets the entries that rows use.
    """
    if all(isinstance(other, Const) for other in others):
        constants = [other.value for other in others if isinstance(other, Const)]
        if None in constants:
            return Const(type_, None, len(value))
        if isinstance(value, Dict) and len(value.dictionary):
            entries, places = entries_in_use(value)
            if len(entries) < len(value):
                return _of_constants(type_, Text(value.type, entries), constants, kernel).take(places)
        return _of_constants(type_, value, constants, kernel)
    return _by_combination(type_, value, others, kernel)


def _of_constants(type_: DataType, value: Vector, constants: list[Any], kernel: Callable[..., pa.Array]) -> Vector:
    return _wrapped(type_, kernel(arrow(value), *constants), value.validity)


def entries_in_use(value: Dict) -> tuple[pa.Array, Array]:
    """Return the entries that rows use, followed by a NULL if a row is NULL, and each row's position among them."""
    used = np.zeros(len(value.dictionary), np.bool_)
    used[value.codes if value.validity is None else value.codes[value.validity]] = True
    entries = value.dictionary.filter(arrow_array(used))
    places = (np.cumsum(used) - 1).take(value.codes)
    if value.validity is not None:
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
        places = np.where(value.validity, places, len(entries) - 1)
    return entries, places


def _by_combination(
    type_: DataType, value: Vector, others: tuple[Vector, ...], kernel: Callable[..., pa.Array]
) -> Vector:
    if not len(value):
        return _wrapped(type_, arrow_array([], type_.arrow), None)
    texts = arrow(value)
    groups = segments(others, len(value))
    order = np.arange(len(value)) if groups.order is None else groups.order
    columns = [python_values(other.take(groups.representatives)) for other in others]
    pieces: list[pa.Array | None] = []
    for constants, rows in zip(zip(*columns, strict=True), np.split(order, groups.starts[1:]), strict=True):
        pieces.append(None if None in constants else kernel(texts.take(arrow_array(rows)), *constants))
    result_type = next((piece.type for piece in pieces if piece is not None), type_.arrow)
    filled = [pa.nulls(n, result_type) if p is None else p for p, n in zip(pieces, groups.sizes, strict=True)]
    back = np.empty(len(order), np.intp)
    back[order] = np.arange(len(order))
    return _wrapped(type_, pa.concat_arrays(filled).take(arrow_array(back)), joined_validity(value, *others))


def _wrapped(type_: DataType, array: pa.Array, validity: Array | None) -> Vector:
    if pa.types.is_boolean(array.type):
        return _bools(array, validity)
    if pa.types.is_integer(array.type):
        return _ints(type_, array, validity)
    return Text(type_, masked(array, validity))


def of_one(name: str, type_: DataType, value: Vector) -> Vector:
    """upper, lower, reverse, length or octet_length."""
    return _FUNCTIONS[name](type_, value)


def _reverse(type_: DataType, value: Vector) -> Vector:
    texts = value.to_arrow()
    function = pc.ascii_reverse if is_ascii(bytes_of(texts)[0]) else pc.utf8_reverse
    return Text(type_, function(texts))


_FUNCTIONS: dict[str, Callable[[DataType, Vector], Vector]] = {
    "upper": lambda type_, value: Text(type_, pc.utf8_upper(arrow(value))),
    "lower": lambda type_, value: Text(type_, pc.utf8_lower(arrow(value))),
    "reverse": _reverse,
    "length": lambda type_, value: Flat(type_, lengths_of(arrow(value)).astype(type_.dtype), value.validity),
    "octet_length": lambda type_, value: _ints(type_, pc.binary_length(arrow(value)), value.validity),
}
