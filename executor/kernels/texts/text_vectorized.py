"""Texts: patterns, pieces, case, searching. Lengths and positions count characters, positions from 1.

The kernels run over Arrow strings. If possible, the evaluator passes dictionaries instead of columns, so that each
distinct text is processed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import DataError
from ....model.types import BOOLEAN, DataType
from ....model.vectors.vector import Array, Const, Dict, Flat, Text, Vector
from ...aggregation.group_codes import segments
from ..distinct import python_values
from ..numbers.bounded_integers import integers, joined_validity
from .like_search import contain_in_order
from .regex_matches import characters_before

_MANY = 512
"""Number of texts from which on `texts.like_search` is faster than Arrow's row-by-row kernels."""
_LONGEST = 2**31 - 1
"""Upper bound of the number of characters of a text."""
_MOST_REPEATED = 1 << 28
"""Largest result of `repeat`: 256 MB."""


def arrow(vector: Vector) -> pa.Array:
    """Return the vector as Arrow strings (a dictionary is decoded)."""
    return vector.to_arrow()


def _bools(array: pa.Array, validity: Array | None) -> Vector:
    if array.null_count:
        array = array.fill_null(False)
    return Flat(BOOLEAN, array.to_numpy(zero_copy_only=False), validity)


def _ints(type_: DataType, array: pa.Array, validity: Array | None) -> Vector:
    if array.null_count:
        array = array.fill_null(0)
    return Flat(type_, array.to_numpy(zero_copy_only=False).astype(type_.dtype, copy=False), validity)


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
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code if validity is None else (codes == code) & validity)
        if len(rows):
            result[rows] = match(texts.take(pa.array(rows)), text, ignore_case).to_numpy(zero_copy_only=False)
    return Flat(BOOLEAN, result, validity)


def match(texts: pa.Array, pattern: str, ignore_case: bool = False) -> pa.Array:
    """Return a mask of texts that match a LIKE pattern: an Arrow boolean array."""
    parsed = parse_pattern(pattern)
    if parsed.runs and not ignore_case and len(texts) >= _MANY and pa.types.is_string(texts.type):
        prefix, *pieces, suffix = parsed.runs
        return pa.array(contain_in_order(texts, pieces, prefix, suffix), mask=_null_mask(texts))
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
    result = candidates.fill_null(False).to_numpy(zero_copy_only=False).copy()
    found = pc.match_substring_regex(texts.take(rows), parsed.regex)
    result[rows.to_numpy()] = found.to_numpy(zero_copy_only=False)
    return pa.array(result)


def _null_mask(texts: pa.Array) -> Array | None:
    return texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None


def re_options(ignore_case: bool) -> dict[str, Any]:
    """Return the keyword arguments for Arrow's regex kernels."""
    return {"ignore_case": True} if ignore_case else {}


_SIMPLE: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "equals": lambda texts, needle: pc.equal(texts, needle),
    "prefix": lambda texts, needle: pc.starts_with(texts, needle),
    "suffix": lambda texts, needle: pc.ends_with(texts, needle),
    "infix": lambda texts, needle: pc.match_substring(texts, needle),
}


# ---- pieces --------------------------------------------------------------------------------------------------------


def substring(type_: DataType, value: Vector, start: Vector, length: Vector | None = None) -> Vector:
    """Return `length` characters from position `start`; positions before the text count, but have no characters."""
    validity = joined_validity(value, start) if length is None else joined_validity(value, start, length)
    if length is not None:
        _refuse_negative(length, validity)
    if isinstance(start, Const) and (length is None or isinstance(length, Const)):
        if start.value is None or (isinstance(length, Const) and length.value is None):
            return Const(type_, None, len(value))
        begin = int(start.value) - 1
        end = None if length is None else max(0, begin + int(length.value))
        return Text(type_, _sliced(arrow(value), max(0, begin), end))
    starts = np.broadcast_to(integers(start), len(value))
    begins = np.clip(starts, 1, _LONGEST) - 1
    ends = np.full(len(value), _LONGEST) if length is None else _slice_ends(starts, begins, integers(length))
    return _each_slice(type_, value, begins, ends, validity)


def _slice_ends(starts: Array, begins: Array, lengths: Array) -> Array:
    """Position at which each substring ends, for any two 64-bit numbers."""
    inside = begins + np.minimum(lengths, _LONGEST)
    before = np.clip(starts, -(2**63) + 1, 0) + lengths - 1  # exact: the two have different signs
    ends: Array = np.maximum(np.where(starts > 0, inside, before), 0)
    return ends


def _sliced(texts: pa.Array, begin: int, end: int | None) -> pa.Array:
    """Return the characters from `begin` to `end` (exclusive), which may exceed Arrow's limits."""
    begin, end = min(begin, _LONGEST), None if end is None else min(end, _LONGEST)
    if end is not None and end <= begin:
        return pc.utf8_slice_codeunits(texts, 0, 0)
    return pc.utf8_slice_codeunits(texts, begin, end)


def _refuse_negative(length: Vector, validity: Array | None) -> None:
    negative = np.broadcast_to(integers(length), len(length)) < 0
    if bool((negative if validity is None else negative & validity).any()):
        raise DataError("a negative length of a substring is not possible")


def _each_slice(type_: DataType, value: Vector, begins: Array, ends: Array, validity: Array | None) -> Vector:
    """Cut one slice per row; rows of equal bounds are processed together."""
    texts = arrow(value)
    if not len(texts):
        return Text(type_, texts)
    pairs = np.minimum(begins, _LONGEST) * 2**31 + np.minimum(ends, _LONGEST)
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    pieces = [pa.array([], texts.type)]
    for first, last in zip(starts, [*starts[1:], len(order)], strict=True):
        begin, end = divmod(int(ordered[first]), 2**31)
        pieces.append(_sliced(texts.take(pa.array(order[first:last])), begin, end))
    back = np.empty(len(order), np.intp)
    back[order] = np.arange(len(order))
    result = pa.concat_arrays(pieces).take(pa.array(back))
    return Text(type_, masked(result, validity))


def masked(array: pa.Array, validity: Array | None) -> pa.Array:
    """Return the array with NULL where `validity` is False."""
    return array if validity is None else pc.if_else(pa.array(validity), array, pa.scalar(None, array.type))


def left(type_: DataType, value: Vector, count: Vector) -> Vector:
    """Return the first `count` characters; a negative count leaves out that many at the end."""
    texts = arrow(value)
    counts = np.broadcast_to(integers(count), len(value))
    if isinstance(count, Const):
        if count.value is None:
            return Const(type_, None, len(value))
        if count.value >= 0:
            return Text(type_, _sliced(texts, 0, int(count.value)))
    lengths = _lengths(texts)
    ends = np.where(counts >= 0, counts, np.maximum(0, lengths + counts))
    return _each_slice(type_, value, np.zeros(len(value), np.int64), ends, joined_validity(value, count))


def right(type_: DataType, value: Vector, count: Vector) -> Vector:
    """Return the last `count` characters; a negative count leaves out that many at the front."""
    if isinstance(count, Const) and count.value is None:
        return Const(type_, None, len(value))
    counts = np.broadcast_to(integers(count), len(value))
    begins = np.where(counts >= 0, np.maximum(0, _lengths(arrow(value)) - counts), -counts)
    ends = np.full(len(value), _LONGEST)
    return _each_slice(type_, value, begins, ends, joined_validity(value, count))


def _lengths(texts: pa.Array) -> Array:
    lengths: Array = pc.utf8_length(texts).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def repeat(type_: DataType, value: Vector, times: Vector) -> Vector:
    """Repeat the text `times` times; "" for none or fewer."""
    if isinstance(times, Const) and times.value is None:
        return Const(type_, None, len(value))
    counts = np.maximum(0, np.broadcast_to(integers(times), len(value)))
    texts = arrow(value)
    size = int(_lengths(texts).max(initial=0)) * int(counts.max(initial=0))
    if size > _MOST_REPEATED:
        raise DataError(f"a repeated text of {size} characters is longer than the limit of {_MOST_REPEATED}")
    return Text(type_, masked(pc.binary_repeat(texts, pa.array(counts)), joined_validity(value, times)))


# ---- whole texts ---------------------------------------------------------------------------------------------------


def concat(type_: DataType, *values: Vector) -> Vector:
    """`||`: NULL if any part is."""
    separator = pa.scalar("" if type_.arrow == pa.string() else b"", type_.arrow)
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
    at = pc.fill_null(pc.find_substring(texts, part), -1).to_numpy(zero_copy_only=False)  # in bytes from 0
    rows = np.flatnonzero(at >= 0)
    places = np.zeros(len(texts), np.int64)
    places[rows] = characters_before(texts, rows, at[rows]) + 1
    return pa.array(places)


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
    entries = value.dictionary.filter(pa.array(used))
    places = (np.cumsum(used) - 1).take(value.codes)
    if value.validity is not None:
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
        places = np.where(value.validity, places, len(entries) - 1)
    return entries, places


def _by_combination(
    type_: DataType, value: Vector, others: tuple[Vector, ...], kernel: Callable[..., pa.Array]
) -> Vector:
    if not len(value):
        return _wrapped(type_, pa.array([], type_.arrow), None)
    texts = arrow(value)
    groups = segments(others, len(value))
    order = np.arange(len(value)) if groups.order is None else groups.order
    columns = [python_values(other.take(groups.representatives)) for other in others]
    pieces: list[pa.Array | None] = []
    for constants, rows in zip(zip(*columns, strict=True), np.split(order, groups.starts[1:]), strict=True):
        pieces.append(None if None in constants else kernel(texts.take(pa.array(rows)), *constants))
    result_type = next((piece.type for piece in pieces if piece is not None), type_.arrow)
    filled = [pa.nulls(n, result_type) if p is None else p for p, n in zip(pieces, groups.sizes, strict=True)]
    back = np.empty(len(order), np.intp)
    back[order] = np.arange(len(order))
    return _wrapped(type_, pa.concat_arrays(filled).take(pa.array(back)), joined_validity(value, *others))


def _wrapped(type_: DataType, array: pa.Array, validity: Array | None) -> Vector:
    if pa.types.is_boolean(array.type):
        return _bools(array, validity)
    if pa.types.is_integer(array.type):
        return _ints(type_, array, validity)
    return Text(type_, masked(array, validity))


_SIMPLE_FUNCTIONS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "upper": pc.utf8_upper,
    "lower": pc.utf8_lower,
    "reverse": pc.utf8_reverse,
}
_LENGTH_FUNCTIONS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "length": pc.utf8_length,
    "octet_length": pc.binary_length,
}


def of_one(name: str, type_: DataType, value: Vector) -> Vector:
    """upper, lower, reverse, length or octet_length."""
    if name in _SIMPLE_FUNCTIONS:
        return Text(type_, _SIMPLE_FUNCTIONS[name](arrow(value)))
    return _ints(type_, _LENGTH_FUNCTIONS[name](arrow(value)), value.validity)
