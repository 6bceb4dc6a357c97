"""The content of both pages: the records of all benchmarks with their sections, and all targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ...model.lazy_dataclass import dataclass
from .model import Section, Target
from .records import Record

TITLE: Final = "nyala: benchmarks"
INTRODUCTION: Final = (
    "All of nyala's published figures, measured in one run with its peers on the same machine. Each section gives "
    "the command that reproduces it, its date and machine, and all versions. Compare ratios rather than times, because "
    "times depend on the machine."
)
MET: Final = "met"
MISSED: Final = "missed"
NOT_MEASURED: Final = "not measured"


@dataclass(frozen=True, slots=True)
class Entry:
    """One benchmark: `section` is None if there are no numbers, and the record has the reason."""

    record: Record
    section: Section | None

    @property
    def title(self) -> str:
        return self.record.name if self.section is None else self.section.title


@dataclass(frozen=True, slots=True)
class Report:
    """All benchmarks, in order; the names of those that have not been run."""

    entries: Sequence[Entry]
    left_out: Sequence[str] = ()

    def targets(self) -> Iterator[tuple[Entry, Target]]:
        """The targets of all sections, missed ones first."""
        every = [(one, target) for one in self.entries if one.section for target in one.section.targets]
        yield from sorted(every, key=lambda pair: (pair[1].is_met, not pair[1].is_measured))

    def of_status(self, status: str) -> list[Entry]:
        """The benchmarks that are done, failed or skipped."""
        return [one for one in self.entries if one.record.status == status]


def entry(record: Record, make: Callable[[Any], Section]) -> Entry:
    """A record with its section; if `make` cannot read its numbers, the benchmark has failed."""
    if record.data is None:
        return Entry(record, None)
    try:
        section = make(record.data)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = f"its numbers cannot be read ({type(error).__name__}: {error}); run it again"
        return Entry(replace(record, status="failed", reason=reason, data=None), None)
    return Entry(record, replace(section, name=record.name))


def moment(date: str) -> str:
    """An ISO date for display.

    >>> moment("2026-11-22T19:40:00+00:00")
    '2026-11-22 19:40 UTC'
    """
    return f"{datetime.fromisoformat(date):%Y-%m-%d %H:%M} UTC"


TRIAL: Final = (
    "This is a trial (--quick): small data, each run once. Its numbers and its verdicts say that the benchmarks run, "
    "and nothing of how fast anything is."
)


def is_trial(report: Report) -> bool:
    """True if any of the benchmarks was run with --quick."""
    return any(entry.record.quick for entry in report.entries)


def counted(report: Report) -> tuple[int, int]:
    """The number of targets that were met, and of those that were measured."""
    outcomes = [target.is_met for _, target in report.targets() if target.is_measured]
    return sum(outcomes), len(outcomes)


def verdict(target: Target) -> str:
    """The word for a target: met, missed or not measured."""
    if not target.is_measured:
        return NOT_MEASURED
    return MET if target.is_met else MISSED
