r"""Matches of a regular expression over whole columns: RE2 through Arrow, positions in numpy.

Arrow's kernels return the first match (`extract_regex_span`), or replace all of them. So all matches of a column are
found by *marking*: each is put between two bytes 0xFF, which occur in no UTF-8 text. The positions of these bytes are
the matches.

    "one two"   \w+   ──►   FF o n e FF _ FF t w o FF   ──►   row 0: bytes 0 to 3, 4 to 7

`^`, `\y` and similar assertions depend on the text before a match, but on no more than one character. A search that
starts inside a text therefore runs over the rest and the character before it, which the pattern skips.

An empty match right behind a match does not count (PostgreSQL counts it, RE2 does not).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ....errors import InvalidText
from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array, numpy_array
from ....model.lazy_dataclass import dataclass
from ....model.vectors.vector import Array
from ....sql.functions.regular_expressions import Regex

_MARK = 0xFF
_UPPER_BITS = 0xC0
"""Mask of a byte's two upper bits, which are 10 in a byte that continues a character."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches in the texts' order, those of one text from left to right.

    Parameters
    ----------
    rows : ndarray of intp, shape (n_matches,)
    starts, ends : ndarray of int64, shape (n_matches,)
        In bytes from the text's beginning.
    """

    rows: Array
    starts: Array
    ends: Array

    def nth(self, n: int, texts: int) -> Matches:
        """Return the nth match (from 1) of each text that has one."""
        first = np.searchsorted(self.rows, np.arange(texts))
        counts = np.bincount(self.rows, minlength=texts)
        return self.take(first[counts >= n] + n - 1)

    def take(self, places: Array) -> Matches:
        """Select some of them."""
        return Matches(self.rows[places], self.starts[places], self.ends[places])


def matching(texts: pa.Array, regex: Regex) -> pa.Array:
    """Return a mask of texts that have a match."""
    try:
        return pc.match_substring_regex(texts, regex.plain)
    except pa.ArrowInvalid as error:
        raise _refused(error) from None


def all_matches(texts: pa.Array, regex: Regex, start: int = 1) -> Matches:
    """Return every match that begins at or behind the character `start` (from 1); matches do not overlap."""
    if start == 1:
        return _marked(texts, regex.plain, rb"\0")
    long_enough = pc.greater_equal(pc.utf8_length(texts), start - 1)
    rest = pc.utf8_slice_codeunits(pc.if_else(long_enough, texts, None), start - 2)
    # The first match includes the character before. Without such a match, there is none from that character on either.
    matches = _marked_in_two(rest, rf"\A(?s:(..*?))({regex.plain})|({regex.plain})")
    skipped = np.diff(offsets_of(texts)) - np.diff(offsets_of(rest))
    return Matches(matches.rows, matches.starts + skipped[matches.rows], matches.ends + skipped[matches.rows])


def _marked_in_two(texts: pa.Array, pattern: str) -> Matches:
    matches = _marked(texts, pattern, rb"\2\3", before=rb"\1")
    return matches.take(np.flatnonzero(matches.starts > 0))


def _marked(texts: pa.Array, pattern: str, match: bytes, before: bytes = b"") -> Matches:
    mark = bytes([_MARK])
    replaced = replaced_all(texts, pattern, before + mark + match + mark)
    offsets, data = offsets_of(replaced), bytes_of(replaced)
    marks = np.flatnonzero(data == _MARK)
    rows = np.searchsorted(offsets, marks, side="right") - 1
    earlier = np.arange(len(marks)) - np.searchsorted(marks, offsets[rows])
    places = marks - offsets[rows] - earlier
    return Matches(rows[0::2], places[0::2], places[1::2])


def replaced_all(texts: pa.Array, pattern: str, new: str | bytes) -> pa.Array:
    r"""Replace all matches of an RE2 pattern in the texts; `\1` is a group, `\0` the match."""
    try:
        return pc.replace_substring_regex(texts, pattern, new)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refused(error) from None


def first_matches(texts: pa.Array, regex: Regex) -> tuple[Matches, list[Matches]]:
    """Return the first match of each text that has one, and its groups; the rows of a group are those where it took
    part."""
    spans = _spans(texts, f"(?P<g0>{regex.capturing})")
    whole, *groups = (_of_spans(spans, f"g{number}") for number in range(regex.groups + 1))
    return whole, groups


def group_of(texts: pa.Array, regex: Regex, matches: Matches, group: int) -> Matches:
    """Return a group (from 1) of the `matches`, at most one in each text; without those it took no part in."""
    data, bounds = bytes_of(texts), offsets_of(texts)
    begins = bounds[matches.rows]
    before = begins + matches.starts - 1
    for _ in range(3):
        before = before - ((before >= begins) & ((data.take(before, mode="clip") & _UPPER_BITS) == 0x80))
    inside = before >= begins
    rests = sliced(texts, matches.rows, np.maximum(before - begins, 0), bounds[matches.rows + 1] - begins)
    at_once = _of_spans(_spans(rests, rf"\A{regex.capturing}"), f"g{group}")
    behind_one = _of_spans(_spans(rests, rf"\A(?s:.){regex.capturing}"), f"g{group}")
    parts = [behind_one.take(inside[behind_one.rows]), at_once.take(~inside[at_once.rows])]
    rows, starts, ends = (np.concatenate([getattr(p, name) for p in parts]) for name in ("rows", "starts", "ends"))
    order = np.argsort(rows)
    rows, skipped = rows[order], np.maximum(before - begins, 0)
    return Matches(matches.rows[rows], starts[order] + skipped[rows], ends[order] + skipped[rows])


def _spans(texts: pa.Array, pattern: str) -> pa.StructArray:
    try:
        return pc.extract_regex_span(texts, pattern)
    except pa.ArrowInvalid as error:
        raise _refused(error) from None


def _of_spans(spans: pa.StructArray, name: str) -> Matches:
    pairs = pc.struct_field(spans, name)
    rows = np.flatnonzero(numpy_array(pairs.is_valid()))
    values = numpy_array(pairs.take(arrow_array(rows)).flatten()).astype(np.int64)
    return Matches(rows, values[0::2], values[0::2] + values[1::2])


def _refused(error: Exception) -> InvalidText:
    """The error for a pattern that RE2 does not compile: one too large, an unknown class."""
    reason = str(error).removeprefix("Invalid regular expression: ")
    return InvalidText(f"a regular expression cannot be used: {reason}")


# ---- bytes -----------------------------------------------------------------------------------------------------------


def offsets_of(texts: pa.Array) -> Array:
    """Offsets of the texts in `bytes_of`, and the end of the last one: int64, one more than there are texts."""
    if not len(texts):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return offsets.astype(np.int64)


def bytes_of(texts: pa.Array) -> Array:
    """Return the buffer of an array of strings, uint8."""
    buffer = texts.buffers()[2]
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def sliced(texts: pa.Array, rows: Array, starts: Array, ends: Array) -> pa.Array:
    """Return the bytes between two positions of each of these rows."""
    lengths = ends - starts
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(offsets_of(texts)[rows] + starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(bytes_of(texts).take(places))]
    return pa.Array.from_buffers(texts.type, len(rows), buffers)


def characters_before(texts: pa.Array, rows: Array, places: Array) -> Array:
    """Number of characters before a position (in bytes) of each of these rows.

    In a column of ASCII alone (one pass over its bytes) positions in bytes are positions in characters. Otherwise the
    bytes that continue a character are located once and counted between two bounds of each row.
    """
    offsets, data = offsets_of(texts), bytes_of(texts)
    first, last = int(offsets[0]), int(offsets[-1])
    used = data[first:last]
    if is_ascii(used):
        return places
    continuing = np.flatnonzero((used & _UPPER_BITS) == 0x80)
    begins = offsets[rows] - first
    found: Array = places - (np.searchsorted(continuing, begins + places) - np.searchsorted(continuing, begins))
    return found


def is_ascii(data: Array) -> bool:
    """True if no byte (uint8) is 0x80 or above."""
    return not len(data) or int(data.max()) < 0x80
