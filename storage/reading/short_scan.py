"""A few rows in key order, from a key on: `WHERE key >= ? ORDER BY key LIMIT 20`.

    rowset 1      ... a c e g ...      keys from there on, by the key index
    rowset 2      ... b d ...
    MemRowSet     ... f ...            keys from there on, by `KeyOrder`
    ──────────────────────────────
    merged        a b c d e f ...      keys alone; then the rows of the first few, source by source

`ordered_scan` has a high initial cost: deltas become runs, the rows of MemRowSets are sorted, bounds and patches are
made for whole rowsets. This scan reads only the result rows, deleted rows in between, and the pages around them. So it
takes about two hundred microseconds for any number of rows in memory.

Its results are rows (`RowBatch`): for a few rows, making Arrow columns takes longer than all other steps, and callers
usually need Python values.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter

from ...model.keys.key_codec import codec_of
from ...model.schema import ColumnSchema
from ...model.store import ScanCounters, ScanSpec
from ...model.vectors.row_batch import RowBatch
from ...model.vectors.vector import Batch
from ..tablet.tablet import TabletView
from .key_interval import KeyInterval
from .short_sources import DiskSource, MemorySource, Place, Row, Source

_LEAST_WINDOW, _LARGEST_WINDOW = 16, 1024
_key_of = itemgetter(0)


def scan_short(view: TabletView, spec: ScanSpec, interval: KeyInterval, counters: ScanCounters) -> Iterator[Batch]:
    """The rows of a view in an interval of keys, ascending by key, at most `spec.limit` (not None) of them: one batch,
    or none."""
    counters.passing(0)
    if not spec.limit:
        return
    columns = [view.table.schema.column(name) for name in spec.columns]
    merge = _Merge(view, columns, interval, counters)
    batch = merge.plain(spec.limit)
    if batch is None:
        batch = RowBatch(merge.rows(spec.limit), [column.type for column in columns])
    if batch.length:
        counters.rows_returned += batch.length
        yield batch


class _Merge:
    """The sources of a view, in the order of their keys. A DiskRowSet joins in when its first key is due."""

    def __init__(
        self, view: TabletView, columns: Sequence[ColumnSchema], interval: KeyInterval, counters: ScanCounters
    ):
        self._counters = counters
        codec = codec_of(tuple(column.type for column in view.table.schema.key))
        memory = [
            MemorySource(number, memrowset, view, columns, codec, interval)
            for number, memrowset in enumerate(view.memory)
        ]
        found = [(r.metadata.min_key, r.stored) for r in view.rowsets if interval.meets(r.metadata)]
        found.sort(key=_key_of)
        disk = [
            DiskSource(number, stored, view, columns, codec, interval, counters)
            for number, (_, stored) in enumerate(found, len(memory))
        ]
        due = bisect_right(found, interval.low, key=_key_of)
        if not memory:
            due = max(1, due)  # there is nothing to read before it
        self._sources: list[Source] = [*memory, *disk[:due]]
        self._later = [(codec.index_bound(key), source) for (key, _), source in zip(found[due:], disk[due:])]
        """Rowsets whose first keys come later, with these; the next one last."""
        self._later.reverse()

    def plain(self, limit: int) -> Batch | None:
        """The first rows, if they are rows of one source in file order, at least one; else None."""
        if len(self._sources) != 1 or self._later:
            return None
        (source,) = self._sources
        batch = source.batch(limit) if isinstance(source, DiskSource) and source.is_plain else None
        if batch is not None:
            self._counters.rows_considered += batch.length
        return batch

    def rows(self, limit: int) -> list[Row]:
        """The first rows of all sources; fewer at the end."""
        rows: list[Row] = []
        places: list[Place] = []
        size = limit
        while True:
            places, count = self._next(places, size)
            if not count:
                return rows
            chosen, places = places[:count], places[count:]
            self._counters.passing(0)
            self._counters.rows_considered += count
            found = [row for row in self._rows(chosen) if row is not None]
            rows += found
            if len(rows) >= limit:
                return rows[:limit]
            # Where most rows are deleted ones, the steps grow.
            size = limit - len(rows) if 2 * len(found) > count else min(2 * size, _LARGEST_WINDOW)

    def _next(self, places: list[Place], size: int) -> tuple[list[Place], int]:
        """The next places of all sources, of which some are at hand, ascending, and how many of them are not preceded
        by any that is not among them: at most `size`, and at least one where there is any."""
        while True:
            places = self._filled(places, size)
            last = [source.last for source in self._sources if not source.is_spent]
            bound = min(last) if last else None
            if self._later and (bound is None or self._later[-1][0] <= bound):
                bound = self._later[-1][0]
                count = bisect_left(places, bound, key=_key_of)
                if count < size:
                    self._sources.append(self._later.pop()[1])
                    continue
            else:
                count = len(places) if bound is None else bisect_right(places, bound, key=_key_of)
            return places, min(count, size)

    def _filled(self, places: list[Place], size: int) -> list[Place]:
        """Read more keys of each source that has few left."""
        sources = self._sources
        # Of two sources, either may have all the rows; of many, each has its share.
        each = size if len(sources) <= 2 else max(_LEAST_WINDOW, 2 * size // len(sources))
        held = Counter([source for _, source, _ in places])
        parts = [source.places(each) for source in sources if not source.is_spent and held[source.number] < each]
        if not places and len(parts) == 1:
            return parts[0]
        places = places.copy()
        for part in parts:
            places += part
        # Python's sort merges what is sorted already.
        places.sort()
        return places

    def _rows(self, places: Sequence[Place]) -> list[Row | None]:
        """Rows at some consecutive places."""
        if len(self._sources) == 1:
            return self._sources[0].rows(places)
        by_source: dict[int, list[Place]] = {}
        for place in places:
            by_source.setdefault(place[1], []).append(place)
        if len(by_source) == 1:
            return self._source(places[0][1]).rows(places)
        found = {number: iter(self._source(number).rows(mine)) for number, mine in by_source.items()}
        return [next(found[number]) for _, number, _ in places]

    def _source(self, number: int) -> Source:
        # They come in the order of their numbers.
        return self._sources[number]
