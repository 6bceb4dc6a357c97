"""Functions of regular expressions over whole columns: `~`, SIMILAR TO, regexp_replace and similar ones.

`sql.functions.regular_expressions` parses a pattern, `texts.regex_matches` finds its matches; this module computes the
values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ....errors import DataError
from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array, arrow_scalar
from ....model.vectors.vector import Array, Vector
from ....sql.functions.regular_expressions import Regex, parse, similar_pattern
from ..groups.hash_groups import number_texts
from .regex_matches import (
    Matches,
    all_matches,
    characters_before,
    first_matches,
    group_of,
    matching,
    offsets_of,
    replaced_all,
    sliced,
)
from .text_vectorized import per_constant

_NUMBERED_ROWS = 4096
"""Number of texts from which on it is worth looking for equal ones."""
_MOST_DISTINCT = 0.75
"""Share of distinct texts up to which each is searched once. Numbering a text takes 30 to 100 ns, a search and the
gathering of its result 300 to 600 ns."""


def _kernel(function: Callable[..., pa.Array]) -> Callable[..., Vector]:
    """Make a kernel of a function of texts (an Arrow array) and constants."""
    return lambda type_, value, *others: per_constant(type_, value, others, partial(_once_each, function))


def _once_each(function: Callable[..., pa.Array], texts: pa.Array, *constants: Any) -> pa.Array:
    """Apply a function of texts and constants to each distinct text, if many rows repeat others. The result for a NULL
    does not matter."""
    if len(texts) < _NUMBERED_ROWS:
        return function(texts, *constants)
    present = pc.fill_null(texts, pa.scalar("", texts.type)) if texts.null_count else texts
    numbers, count = number_texts(present)
    if count > len(texts) * _MOST_DISTINCT:
        return function(texts, *constants)
    firsts = np.empty(count, np.intp)
    firsts[numbers[::-1]] = np.arange(len(texts) - 1, -1, -1)
    return function(present.take(pa.array(firsts)), *constants).take(pa.array(numbers))


def like(texts: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    """`~` and `regexp_like`: true if the pattern matches somewhere in the text."""
    return matching(texts, parse(pattern, flags))


def similar(texts: pa.Array, pattern: str, escape: str = "\\") -> pa.Array:
    """`value SIMILAR TO pattern [ESCAPE escape]`: the whole text must match."""
    return matching(texts, parse(similar_pattern(pattern, escape)))


# ---- replacing -------------------------------------------------------------------------------------------------------


def replace(texts: pa.Array, pattern: str, new: str, flags: str = "") -> pa.Array:
    r"""`regexp_replace`: the first match, with flag `g` all of them; `\1` to `\9` are groups, `\&` the whole match."""
    regex = parse(pattern, flags)
    parts = _replacement(new, regex.groups)
    if "g" in flags:
        quoted = "".join(f"\\{part}" if isinstance(part, int) else part.replace("\\", "\\\\") for part in parts)
        return replaced_all(texts, regex.capturing, quoted)
    whole, groups = first_matches(texts, regex)
    if not len(whole.rows):
        return texts
    pieces = [sliced(texts, whole.rows, np.zeros_like(whole.starts), whole.starts)]
    for part in parts:
        if isinstance(part, str):
            pieces.append(pa.repeat(arrow_scalar(part, texts.type), len(whole.rows)))
        else:
            pieces.append(_text_of(texts, whole, whole if part == 0 else groups[part - 1]))
    pieces.append(sliced(texts, whole.rows, whole.ends, np.diff(offsets_of(texts))[whole.rows]))
    replaced = pc.binary_join_element_wise(*pieces, arrow_scalar("", texts.type))
    return pc.replace_with_mask(texts, _mask(whole.rows, len(texts)), replaced)


def _replacement(text: str, groups: int) -> list[str | int]:
    r"""Split into literal pieces and group numbers; `\0` counts as `\&`. Any other backslash is literal."""
    out: list[str | int] = [""]
    chars = iter(text)
    for char in chars:
        following = next(chars, "\\") if char == "\\" else ""
        if following and (following in "0123456789&"):
            number = 0 if following == "&" else int(following)
            out += [number, ""] if number <= groups else []
        else:
            out[-1] = str(out[-1]) + (char if following in ("", "\\") else char + following)
    return [part for part in out if part != ""]


def _text_of(texts: pa.Array, whole: Matches, group: Matches) -> pa.Array:
    """Return the group's text for each match, "" if it took no part."""
    starts, ends = np.zeros((2, len(whole.rows)), np.int64)
    places = np.searchsorted(whole.rows, group.rows)
    starts[places], ends[places] = group.starts, group.ends
    return sliced(texts, whole.rows, starts, ends)


def _mask(rows: Array, length: int) -> pa.Array:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return arrow_array(mask)


# ---- finding ---------------------------------------------------------------------------------------------------------


def count(texts: pa.Array, pattern: str, start: int = 1, flags: str = "") -> pa.Array:
    """`regexp_count`: the number of matches from a position on."""
    found = all_matches(texts, parse(pattern, flags), _checked(start))
    return arrow_array(np.bincount(found.rows, minlength=len(texts)))


def instr(
    texts: pa.Array, pattern: str, start: int = 1, n: int = 1, end: int = 0, flags: str = "", group: int = 0
) -> pa.Array:
    """`regexp_instr`: the position at which the nth match begins (`end` 1: the position behind it); 0 without one."""
    if end not in (0, 1):
        raise DataError(f"the end option of regexp_instr is 0 or 1, not {end}")
    matches = _nth(texts, parse(pattern, flags), start, n, group)
    places = np.zeros(len(texts), np.int64)
    places[matches.rows] = characters_before(texts, matches.rows, matches.ends if end else matches.starts) + 1
    return arrow_array(places)


def substr(texts: pa.Array, pattern: str, start: int = 1, n: int = 1, flags: str = "", group: int = 0) -> pa.Array:
    """`regexp_substr`: the nth match, or a group of it; NULL without one."""
    return _found(texts, _nth(texts, parse(pattern, flags), start, n, group))


def capture(texts: pa.Array, pattern: str) -> pa.Array:
    """`substring(text FROM pattern)`: the first group if there is one, else the match."""
    regex = parse(pattern)
    return _found(texts, _nth(texts, regex, 1, 1, min(1, regex.groups)))


def _found(texts: pa.Array, matches: Matches) -> pa.Array:
    places = np.zeros(len(texts), np.int64)
    places[matches.rows] = np.arange(len(matches.rows))
    missing = np.ones(len(texts), np.bool_)
    missing[matches.rows] = False
    return sliced(texts, matches.rows, matches.starts, matches.ends).take(arrow_array(places, mask=missing))


def _nth(texts: pa.Array, regex: Regex, start: int, n: int, group: int) -> Matches:
    """Return a group (0: all) of the nth match of each text that has it."""
    if n < 1:
        raise DataError(f"there is no match number {n}; the first is 1")
    if group < 0:
        raise DataError(f"there is no group number {group}; the first is 1, and 0 is the whole match")
    if group > regex.groups:
        return Matches(np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0, np.int64))
    if _checked(start) == 1 and n == 1:
        whole, groups = first_matches(texts, regex)
        return groups[group - 1] if group else whole
    matches = all_matches(texts, regex, start).nth(n, len(texts))
    return group_of(texts, regex, matches, group) if group else matches


def _checked(start: int) -> int:
    if start < 1:
        raise DataError(f"a search cannot start at position {start}; the first is 1")
    return start


KERNELS: dict[str, Any] = {
    "regexp_match": _kernel(like),
    "regexp_imatch": _kernel(lambda texts, pattern: like(texts, pattern, "i")),
    "regexp_like": _kernel(like),
    "similar": _kernel(similar),
    "regexp_replace": _kernel(replace),
    "regexp_count": _kernel(count),
    "regexp_instr": _kernel(instr),
    "regexp_substr": _kernel(substr),
    "regexp_capture": _kernel(capture),
}
