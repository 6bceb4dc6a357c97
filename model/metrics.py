"""The registry of metrics: sources are read on request, and only then.

    a store, a server, the sessions ── register(method) ──► sources (held weakly)
    /metrics, nyala_catalog.metrics, pages ── collect() ──► each source's samples ──► equal ones added up ──► sorted

Hot paths have plain integers of their own, without locks: a look-up by key pays for one addition. An addition to an
attribute has no point at which CPython switches threads, so none is lost while there is one interpreter lock.
"""

from __future__ import annotations

import logging
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from .forks import renew_in_child
from .lazy_dataclass import dataclass
from .metric_definitions import METRICS, Metric

_log = logging.getLogger("nyala.metrics")

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of histograms, in seconds."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram at one time: `counts[i]` observations were at most `BOUNDS[i]` and above the bound before; the last
    number is that of those above all bounds. `total` is the sum of the observed values."""

    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    def plus(self, other: Distribution) -> Distribution:
        """Both together."""
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Distribution(counts, self.total + other.total)

    def quantile(self, share: float) -> float:
        """An upper bound of the value that `share` of the observations do not exceed; 0 without observations, infinity
        if it is above all bounds.

        >>> Distribution((9, 1, *[0] * 15), 0.01).quantile(0.5)
        0.0005
        """
        wanted, seen = share * self.count, 0
        if not wanted:
            return 0.0
        for bound, count in zip((*BOUNDS, float("inf")), self.counts, strict=True):
            seen += count
            if seen >= wanted:
                return bound
        return float("inf")


Value: TypeAlias = float | Distribution


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a metric. `labels` are the values of its labels, in the order of the definition."""

    name: str
    value: Value
    labels: tuple[str, ...] = ()

    @property
    def metric(self) -> Metric:
        """The definition."""
        return METRICS[self.name]

    @property
    def named_labels(self) -> dict[str, str]:
        """The labels by name."""
        return dict(zip(self.metric.labels, self.labels, strict=True))


class Histogram:
    """Counts observations by upper bound. Safe for several threads.

    >>> histogram = Histogram()
    >>> histogram.observe(0.002)
    >>> histogram.read().count, histogram.read().quantile(0.5)
    (1, 0.0025)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Counts one value."""
        place = bisect_left(BOUNDS, value)
        with self._lock:
            self._counts[place] += 1
            self._total += value

    def read(self) -> Distribution:
        """The state of now."""
        with self._lock:
            return Distribution(tuple(self._counts), self._total)


Source: TypeAlias = Callable[[], Iterable[Sample]]

_lock = threading.Lock()
_sources: list[weakref.ref[Source]] = []
"""Functions and methods that are read; the methods of objects that are gone are dropped at the next reading."""


def register(source: Source) -> None:
    """From now on `collect` reads a source.

    Parameters
    ----------
    source : function, or method without arguments
        Returns samples. A method is held weakly, as its object is; a function for as long as its module has it.
    """
    held = weakref.WeakMethod(source) if hasattr(source, "__self__") else weakref.ref(source)
    with _lock:
        _sources.append(held)


def collect() -> list[Sample]:
    """All samples of the process, by name and labels, ascending. Those with equal labels are added up, or the greatest
    is taken (`Metric.takes_greatest`). A source that fails is left out, with a line in the log."""
    with _lock:
        _sources[:] = [held for held in _sources if held() is not None]
        sources = [source for held in _sources if (source := held()) is not None]
    found: dict[tuple[str, tuple[str, ...]], Value] = {}
    for source in sources:
        for sample in _read(source):
            key = sample.name, sample.labels
            before = found.get(key)
            found[key] = sample.value if before is None else _together(sample.metric, before, sample.value)
    return [Sample(name, value, labels) for (name, labels), value in sorted(found.items(), key=lambda item: item[0])]


def _read(source: Source) -> Iterable[Sample]:
    try:
        return list(source())
    except Exception:  # a store that is closed just now; the others are still of interest
        _log.debug("a source of metrics failed", exc_info=True)
        return ()


def _together(metric: Metric, one: Value, other: Value) -> Value:
    if isinstance(one, Distribution) or isinstance(other, Distribution):
        assert isinstance(one, Distribution) and isinstance(other, Distribution)
        return one.plus(other)
    return max(one, other) if metric.takes_greatest else one + other


def by_name(samples: Iterable[Sample]) -> Iterator[tuple[Metric, list[Sample]]]:
    """Samples by metric, in the order in which they are."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.name, []).append(sample)
    for name, group in groups.items():
        yield METRICS[name], group


def _renew() -> None:
    """In a forked child: the stores of its parent are not its own."""
    global _lock
    _lock = threading.Lock()
    _sources[:] = [held for held in _sources if not isinstance(held, weakref.WeakMethod)]


renew_in_child(_renew)
