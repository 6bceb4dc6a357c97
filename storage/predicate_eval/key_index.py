"""From keys to row offsets: the key columns of a DiskRowSet are its index.

Rows are ascending by key, so a binary search over the key columns themselves finds a row; no copy of the keys as
bytes is stored (docs/decisions/2026-11-21-no-encoded-key-column.md). The footers of the key columns keep the value of
every 4,096th row: these *firsts* lie in memory and lead to a stretch of 4,096 rows. Within it the columns
narrow the range one after the other, comparing codes with codes: the probe is brought into the page's code domain.

                        firsts            orderkey   linenumber
    find (7, 2):  ... [5,1] [8,1] ...     5 5 6 7 7 7 8
                      └ stretch ┘               └ 7 ┘     1 2 3
                                                            └ row
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, numpy_array
from ...model.keys.key_codec import KeyCodec
from ...model.keys.keys import Keys, search_encoded
from ...model.store import ScanCounters
from ...model.vectors.vector import Array, Dict, Flat, Narrow, Text, Vector, Wide
from ..columns.column_file import INDEX_ROWS, ROW_GROUP_ROWS
from ..columns.column_reader import ColumnReader
from ..keys.bloom import BloomProbe, BloomReader, probe_chunk
from .evaluation import position

FEW_KEYS = 8
"""Up to here keys are looked up one by one: a look-up costs about 10 µs, a vectorised one some 200 µs at least."""


_SAMPLE = 64
"""Number of keys of a sample, which shows whether a row group has most of the keys that it is likely to have."""

_FEW_EQUALS = 8
_NATIVE = frozenset("bBhHiIlLqQ")
"""Formats of which a memoryview gives items: aligned, in the machine's byte order."""


class KeyIndex:
    """Finds rows of one DiskRowSet by primary key. Safe for several threads.

    Parameters
    ----------
    readers : sequence of ColumnReader
        The key columns, in key order.
    rows : int
    """

    def __init__(self, readers: Sequence[ColumnReader], rows: int, bloom: BloomReader):
        self._readers = readers
        self._rows = rows
        self._bloom = bloom
        self._types = tuple(r.type for r in readers)

    @cached_property
    def firsts(self) -> list[tuple[Any, ...]]:
        """Key of every 4,096th row, as physical values: Python orders these tuples as keys are ordered."""
        columns = [r.footer.firsts or [] for r in self._readers]
        return list(zip(*columns, strict=True))

    @cached_property
    def _pages(self) -> list[tuple[ColumnReader, int]]:
        """The key columns, with the rows of a page."""
        return [(reader, reader.footer.page_rows) for reader in self._readers]

    @cached_property
    def _group_firsts(self) -> pa.BinaryArray:
        """Encoded key of the first row of each row group."""
        return Keys.from_values(self._types, self.firsts[:: ROW_GROUP_ROWS // INDEX_ROWS]).encoded()

    # ---- one key -------------------------------------------------------------------------------------------------

    def find_one(self, values: Sequence[Any], counters: ScanCounters | None = None) -> int:
        """The row offset of a key given as physical values, -1 where it is not here."""
        return self._find_in_stretch(bisect_right(self.firsts, tuple(values)) - 1, values, counters)

    def look_up(self, values: Sequence[Any], probe: BloomProbe, counters: ScanCounters | None = None) -> int:
        """`find_one` with the Bloom filter first: no page is read for nearly all absent keys."""
        stretch = bisect_right(self.firsts, tuple(values)) - 1
        if stretch < 0 or not probe.passes(self._bloom.chunk(stretch * INDEX_ROWS // ROW_GROUP_ROWS)):
            return -1
        return self._find_in_stretch(stretch, values, counters)

    def holds(self, row: int, values: Sequence[Any], counters: ScanCounters | None = None) -> bool:
        """True if this is the key of a row."""
        for (reader, size), value in zip(self._pages, values):
            number = row // size
            page, place = reader.page(number, counters), row - number * size
            if type(page) is Text:
                if page.cells.bytes_at(place) != (value.encode() if isinstance(value, str) else value):
                    return False
            elif type(page) is Narrow:
                if page.codes.item(place) + page.base != value:
                    return False
            else:
                low, high = _span(page, place, place + 1, value)
                if low == high:
                    return False
        return True

    def _find_in_stretch(self, stretch: int, values: Sequence[Any], counters: ScanCounters | None) -> int:
        if stretch < 0:
            return -1
        start, stop = self._stretch(stretch)
        for (reader, size), value in zip(self._pages, values):
            number = start // size
            page = reader.page(number, counters)
            if type(page) is Narrow and page.codes.data.format in _NATIVE and stop <= (number + 1) * size:
                # The usual case in one go: all of it is in one page of packed integers.
                codes, code, origin = page.codes.data, value - page.base, number * size
                start = bisect_left(codes, code, start - origin, stop - origin) + origin
                if start == stop or codes[start - origin] != code:
                    return -1
                if stop - start > 1:
                    stop = _after_equals(codes, code, start - origin, stop - origin) + origin
            else:
                start, stop = _narrowed(reader, start, stop, value, counters)
                if start == stop:
                    return -1
        return start

    def search(self, prefix: Sequence[Any], after: bool, counters: ScanCounters | None = None) -> int:
        """The first row whose key starts with `prefix` or is above it; with `after`, the first that is above all
        keys that start with `prefix`. The number of rows where there is none."""
        length = len(prefix)
        bisect = bisect_right if after else bisect_left
        cut = None if length == len(self._readers) else (lambda first: first[:length])
        stretch = bisect(self.firsts, tuple(prefix), key=cut)
        if stretch == 0:
            return 0
        start, stop = self._stretch(stretch - 1)
        for reader, value in zip(self._readers, prefix):
            start, stop = _narrowed(reader, start, stop, value, counters)
            if start == stop:
                return start
        return stop if after else start

    def _stretch(self, number: int) -> tuple[int, int]:
        return number * INDEX_ROWS, min((number + 1) * INDEX_ROWS, self._rows)

    def index_keys(
        self, start: int, stop: int, codec: KeyCodec, counters: ScanCounters | None = None
    ) -> list[int] | list[bytes]:
        """The keys of some rows, at least one, as `KeyCodec.index_key` gives them."""
        reader = self._readers[0]
        size = reader.footer.page_rows
        number = start // size
        if len(self._readers) == 1 and stop <= (number + 1) * size:
            # The usual case of a short scan, without Arrow's and numpy's kernels.
            page, origin = reader.page(number, counters), number * size
            if type(page) is Text:
                return page.cells.bytes_between(start - origin, stop - origin)
            if type(page) is Narrow and codec.is_packed:
                bias = codec.index_key((page.base,))
                return [bias + code for code in page.codes[start - origin : stop - origin].tolist()]
        keys = Keys(self._types, tuple(r.read(start, stop, None, counters) for r in self._readers))
        packed = keys.packed()
        encoded: list[Any] = (keys.encoded() if packed is None else packed).tolist()
        return encoded

    def hashes_32(self, start: int, stop: int) -> Array:
        """`Keys.hashes_32` of some rows, at least one."""
        return Keys(self._types, tuple(r.read(start, stop, None) for r in self._readers)).hashes_32()

    # ---- many keys -----------------------------------------------------------------------------------------------

    def find(self, keys: Keys, likely: bool = False) -> Array:
        """Row offset per key, -1 where it is not here: ndarray of int64, shape (n_keys,).

        Keys are grouped by row group; in each the Bloom filter's chunk is tested first (Kudu paper, insert path), and
        only keys that pass are searched. If the keys are `likely` to be here, the filter is skipped.
        """
        if len(keys) <= FEW_KEYS:
            return self._find_few(keys)
        if keys.is_strictly_ascending():
            return self._find_ascending(keys, likely)
        offsets = np.full(len(keys), -1, np.int64)
        groups = search_encoded(self._group_firsts, keys.encoded(), right=True) - 1
        order = np.argsort(groups, kind="stable")
        ends = np.searchsorted(groups[order], np.arange(len(self._group_firsts) + 1))
        for group in np.flatnonzero(np.diff(ends)).tolist():
            asked = order[ends[group] : ends[group + 1]]
            if not likely:
                asked = asked[probe_chunk(self._bloom.chunk(group), keys.hashes().take(asked))]
            if len(asked):
                offsets[asked] = self._find_in_group(group, keys.take(asked))
        return offsets

    def _find_ascending(self, keys: Keys, likely: bool) -> Array:
        """`find` for ascending keys, as a scan or a sorted file gives them: those of a row group are a slice."""
        offsets = np.full(len(keys), -1, np.int64)
        firsts = self.firsts[:: ROW_GROUP_ROWS // INDEX_ROWS]
        bounds = [bisect_left(range(len(keys)), first, key=keys.values_at) for first in firsts]
        for group, (start, stop) in enumerate(pairwise([*bounds, len(keys)])):
            if start == stop:
                continue
            mine = keys.slice(start, stop)
            run = self._run_of(mine) if likely else -1
            if run >= 0:
                offsets[start:stop] = np.arange(run, run + stop - start)
                continue
            if not likely or not self._holds_most(group, mine):
                passed = probe_chunk(self._bloom.chunk(group), keys.hashes()[start:stop])
                if not passed.all():
                    asked = np.flatnonzero(passed)
                    if len(asked):
                        offsets[start + asked] = self._find_in_group(group, mine.take(asked))
                    continue
            offsets[start:stop] = self._find_in_group(group, mine)
        return offsets

    def _holds_most(self, group: int, keys: Keys) -> bool:
        """False if the Bloom filter knows by a sample that most of the keys are not here: a MemRowSet's rows are
        between those of a rowset."""
        sample = keys.take(np.arange(0, len(keys), -(-len(keys) // _SAMPLE)))
        return bool(probe_chunk(self._bloom.chunk(group), sample.hashes()).mean() > 0.5)

    def _run_of(self, keys: Keys) -> int:
        """The offset of the first of ascending keys if they are those of consecutive rows, as after a scan of all rows,
        else -1. Comparing columns costs a tenth of searching for each key."""
        first = self.find_one(keys.values_at(0))
        if first < 0 or first + len(keys) > self._rows:
            return -1
        if self.find_one(keys.values_at(len(keys) - 1)) != first + len(keys) - 1:
            return -1
        stop = first + len(keys)
        columns = zip(self._readers, keys.columns)
        same = all(reader.read(first, stop, None).to_arrow().equals(column.to_arrow()) for reader, column in columns)
        return first if same else -1

    def _find_few(self, keys: Keys) -> Array:
        hashes = keys.hashes().tolist()
        found = [self.look_up(keys.values_at(i), BloomProbe(hash_)) for i, hash_ in enumerate(hashes)]
        return np.array(found, np.int64)

    def _find_in_group(self, group: int, keys: Keys) -> Array:
        """Row offsets of keys that are in this row group if anywhere."""
        start = group * ROW_GROUP_ROWS
        stop = min(start + ROW_GROUP_ROWS, self._rows)
        offsets = np.full(len(keys), -1, np.int64)
        alive = np.arange(len(keys))
        low, high = np.zeros(len(keys), np.int64), np.full(len(keys), stop - start, np.int64)
        for reader, column in zip(self._readers, keys.columns):
            page = reader.read(start, stop, None)
            kept, values, probes = _comparable(reader, page, column.take(alive))
            alive, low, high = alive[kept], low[kept], high[kept]
            low, high = _search(values, probes, low, high, False), _search(values, probes, low, high, True)
            hit = low < high
            alive, low, high = alive[hit], low[hit], high[hit]
        offsets[alive] = low + start
        return offsets


def _after_equals(codes: memoryview, code: int, low: int, high: int) -> int:
    """The end of the codes that are equal to the one at `low`, as a rule few."""
    near = low + _FEW_EQUALS
    if near < high and codes[near] != code:
        high = near
    return bisect_right(codes, code, low, high)


def _narrowed(
    reader: ColumnReader, start: int, stop: int, value: Any, counters: ScanCounters | None
) -> tuple[int, int]:
    """The rows among `start` to `stop`, over which the column ascends, that hold `value`; where none does, an empty
    range at the place where it would be."""
    size = reader.footer.page_rows
    first = start // size
    if (stop - 1) // size == first:
        page, origin = reader.page(first, counters), first * size
    else:
        page, origin = reader.read(start, stop, None, counters), start
    low, high = _span(page, start - origin, stop - origin, value)
    return low + origin, high + origin


def _span(page: Vector, start: int, stop: int, value: Any) -> tuple[int, int]:
    if isinstance(page, Narrow):
        codes, code = page.codes, value - page.base
    elif isinstance(page, Dict):
        codes, code = page.codes, position(page.dictionary, value)
        if code == len(page.dictionary):
            return stop, stop
        if page.dictionary[code].as_py() != value:
            low = bisect_left(_integers(codes, start, stop), code, 0, stop - start) + start
            return low, low
    elif isinstance(page, Flat):
        codes, code = page.values(), value
    elif isinstance(page, Text):
        probe = value.encode() if isinstance(value, str) else value
        return page.cells.search(probe, start, stop)
    else:
        assert isinstance(page, Wide)
        values, wide = page.array[start:stop], page.type.to_python(value)
        return start + position(values, wide), start + position(values, wide, after=True)
    items, length = _integers(codes, start, stop), stop - start
    low = bisect_left(items, code, 0, length)
    if low == length or items[low] != code:
        return start + low, start + low
    return start + low, start + bisect_right(items, code, low, length)


def _integers(codes: Array, start: int, stop: int) -> memoryview:
    """Some of the codes as Python integers: bisecting over them costs less than one call of numpy, and neither they nor
    the value need to fit the other's range."""
    part = codes[start:stop]
    items = part.data
    # Pages that are views of a file's bytes may be unaligned, or name their byte order: such items have no value.
    return items if len(items.format) == 1 else part.astype(part.dtype.type).data


def _comparable(reader: ColumnReader, page: Vector, probes: Vector) -> tuple[Array, Any, Any]:
    """(probes that can be in the page, values of the page, those probes' values), the latter two comparable."""
    everything = np.arange(len(probes))
    if isinstance(page, (Text, Wide)):
        return everything, page.array, probes.to_arrow()
    if isinstance(page, Dict):
        places = pc.index_in(probes.to_arrow(), value_set=page.dictionary)
        kept = np.flatnonzero(numpy_array(places.is_valid()))
        return kept, page.codes, numpy_array(places.take(arrow_array(kept))).astype(page.codes.dtype)
    values = probes.values()
    if isinstance(page, Flat):
        return everything, page.values(), values.astype(page.values().dtype, copy=False)
    assert isinstance(page, Narrow)
    low, high = page.bounds()
    kept = np.flatnonzero((values >= low) & (values <= high))
    inside = values.take(kept).astype(np.int64, copy=False).view(np.uint64) - np.uint64(low % 2**64)
    return kept, page.codes, inside.astype(page.codes.dtype)


def _search(values: Any, probes: Any, low: Array, high: Array, right: bool) -> Array:
    """Insertion position of each probe in `values[low:high]` (one range per probe), after its equals with `right`."""
    if isinstance(values, np.ndarray):
        if len(low) and not low.any() and int(high.min()) == len(values):
            return np.asarray(values.searchsorted(probes, "right" if right else "left"))
    low, high = low.copy(), high.copy()
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        up = _below(values, np.minimum(middle, len(values) - 1), probes, right) & (low < high)
        np.copyto(low, middle + 1, where=up)
        np.copyto(high, middle, where=~up & (low < high))
    return low


def _below(values: Any, rows: Array, probes: Any, or_equal: bool) -> Array:
    """True for each row whose value is below (or equal to) its probe."""
    if isinstance(values, np.ndarray):
        row_values = values.take(rows)
        return np.asarray(row_values <= probes if or_equal else row_values < probes)
    compare = pc.less_equal if or_equal else pc.less
    return numpy_array(compare(values.take(arrow_array(rows)), probes))
