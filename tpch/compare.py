"""Runs nyala and its peers together: the same queries on the same data in turn, with the same number of threads.

    for each query:   nyala  peer  peer ...  |  nyala  peer  peer ...  |  nyala  peer  peer ...  | ...
                      first run, answers held    warm runs, in turn, so that whatever else the machine
                      against each other         does hits all alike

The measure is the median of the warm runs. The best run is reported too, because it is more significant on a machine
with other work. So is the first run, which finds neither plan nor compiled code, although the files may be in the
system's cache. A wrong answer has no time, nor has a query that an engine cannot run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Final

import pyarrow as pa

from ..errors import OperationalError
from ..model.lazy_dataclass import dataclass
from . import check
from .manifest import Manifest
from .peers import Peer, Store, opened
from .queries import Query
from .run import Times, geometric_mean, timed

US: Final = Store.name
MEASURES: Final = ("median", "best", "cold")
"""The times of an `Outcome` for comparing engines."""


@dataclass(slots=True)
class Outcome(Times):
    """One engine and one query: seconds of the first and of the warm runs, or the fault.

    `wrong` describes the difference of the answer, `failed` the error of the query; either ends the runs.
    """

    cold: float = 0.0
    warm: list[float] = field(default_factory=list)
    rows: int = 0
    wrong: str | None = None
    failed: str | None = None

    @property
    def trouble(self) -> str | None:
        return self.wrong or self.failed


@dataclass(frozen=True, slots=True)
class Comparison:
    """One query on every engine, by the engines' names; nyala is `US`."""

    number: int
    outcomes: dict[str, Outcome]

    def ratio(self, peer: str, measure: str = "median") -> float | None:
        """nyala's time over the peer's: below 1, nyala is faster. None if one of the two has none."""
        ours, theirs = self.outcomes[US], self.outcomes[peer]
        if ours.trouble or theirs.trouble:
            return None
        return float(getattr(ours, measure) / max(getattr(theirs, measure), 1e-9))


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run. `versions` has the engines that ran, nyala first; `skipped` has the reasons why others did not."""

    manifest: Manifest
    threads: int
    runs: int
    versions: dict[str, str]
    skipped: dict[str, str]
    results: list[Comparison]

    @property
    def peers(self) -> list[str]:
        return [name for name in self.versions if name != US]

    @property
    def troubles(self) -> list[str]:
        """A sentence for each wrong answer and each failed query."""
        return [
            f"{name}, Q{result.number}: {outcome.trouble}"
            for result in self.results
            for name, outcome in result.outcomes.items()
            if outcome.trouble
        ]

    def ratios(self, peer: str, measure: str = "median") -> list[float]:
        """The ratios of the queries for which both engines have a time."""
        found = (result.ratio(peer, measure) for result in self.results)
        return [ratio for ratio in found if ratio is not None]

    def mean_ratio(self, peer: str, measure: str = "median") -> float | None:
        """The geometric mean of `ratios`; None if there are none."""
        ratios = self.ratios(peer, measure)
        return geometric_mean(ratios) if ratios else None


def compare(
    ours: Peer,
    manifest: Manifest,
    queries: Iterable[Query],
    peers: Sequence[Peer],
    *,
    threads: int,
    runs: int = 3,
    progress: Callable[[str], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Runs each query on every engine, once cold and `runs` times warm.

    Answers are compared with the TPC's at scale factor 1; at any other, those of the peers with nyala's.

    Parameters
    ----------
    ours : Peer
        Named `US`, open and with as many threads as the peers get.
    manifest : Manifest
        That of the database behind `ours`; the peers read the files it was loaded from.
    queries : iterable of Query
    peers : sequence of Peer
        Peers that are not installed, or do not start, are skipped; `Report.skipped` has the reasons.
    threads, runs : int
    progress : callable
        Called with a short description of each step.
    say : callable
        Called with the skipped peers, before the measurement.

    Raises
    ------
    OperationalError
        If no peer is left.
    """
    with ExitStack() as stack:
        stack.enter_context(_arrow_threads(threads))
        engines, skipped = [ours], {}
        for peer in peers:
            progress(f"preparing {peer.name}")
            reason = _open(peer, Path(manifest.data), threads, stack)
            if reason is None:
                engines.append(peer)
            else:
                skipped[peer.name] = reason
                say(f"skipped {peer.name}: {reason}")
        if len(engines) == 1:
            raise OperationalError(
                "there is no peer to compare with: " + "; ".join(f"{name}: {why}" for name, why in skipped.items())
            )
        results = []
        for query in queries:
            progress(f"query {query.number}")
            results.append(_measure(query, engines, runs, manifest.scale_factor == 1))
        versions = {engine.name: engine.version for engine in engines}
    return Report(manifest, threads, runs, versions, skipped, results)


def _open(peer: Peer, data: Path, threads: int, stack: ExitStack) -> str | None:
    """Prepares a peer until the stack ends; returns the reason if it is not available."""
    missing = peer.missing()
    if missing is not None:
        return missing
    try:
        stack.enter_context(opened(peer, data, threads))
    except Exception as error:  # an engine may fail to start with any exception
        return f"it does not start: {_first_line(error)}"
    return None


@contextmanager
def _arrow_threads(threads: int) -> Iterator[None]:
    """Sets the size of Arrow's own thread pool, which kernels on whole tables use, to the same number of threads."""
    before = pa.cpu_count()
    pa.set_cpu_count(threads)
    try:
        yield
    finally:
        pa.set_cpu_count(before)


def _measure(query: Query, engines: Sequence[Peer], runs: int, official: bool) -> Comparison:
    outcomes = {engine.name: Outcome() for engine in engines}
    answers = {}
    for engine in engines:
        outcome = outcomes[engine.name]
        outcome.cold, answer = _attempt(engine, query, outcome)
        if answer is not None:
            answers[engine.name] = answer
            outcome.rows = answer.num_rows
    for name, difference in _differences(query, answers, official).items():
        outcomes[name].wrong = difference.text
    for _ in range(runs):
        for engine in engines:
            outcome = outcomes[engine.name]
            if not outcome.trouble:
                outcome.warm.append(_attempt(engine, query, outcome)[0])
    return Comparison(query.number, outcomes)


def _attempt(engine: Peer, query: Query, outcome: Outcome) -> tuple[float, pa.Table | None]:
    """Seconds and answer of one run; a failure is recorded in the outcome."""
    try:
        return timed(lambda: engine.run(query.text))
    except Exception as error:  # any error of an engine: the others are still measured
        outcome.failed = _first_line(error)
        return 0.0, None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _differences(query: Query, answers: dict[str, pa.Table], official: bool) -> dict[str, check.Difference]:
    """The wrong answers by engine: according to the TPC's answer, or for the peers according to nyala's."""
    differences = {}
    for name, answer in answers.items():
        if official:
            difference = check.official(query, answer)
        elif name != US and US in answers:
            difference = check.compare(query, answer, answers[US], cut=True)
        else:
            continue
        if difference is not None:
            differences[name] = difference
    return differences
