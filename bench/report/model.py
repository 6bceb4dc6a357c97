"""What a report is made of: a benchmark makes a `Section` of the JSON that it saved.

Numbers come as numbers, so that tables and charts can be drawn of the same cells; texts are plain, not HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Cell: TypeAlias = str | float | int | None


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: rows of as many cells as there are columns, the first cell of a row its name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    unit: str = ""
    """Of its numbers, where all have the same: "ms", "operations/s"."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars side by side: for each group one value of each series, None where there is none."""

    title: str
    unit: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    """By name (an engine, a binding), as many values as there are groups."""
    scale: Literal["linear", "log"] = "linear"


@dataclass(frozen=True, slots=True)
class Target:
    """What was wanted and what was found; a target that was missed is shown like one that was met."""

    what: str
    wanted: str
    found: str
    is_met: bool
    is_measured: bool = True
    """False if there is no number: neither met nor missed."""


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark. `text` says in a few sentences what was measured and how, for a reader who has not seen it."""

    name: str
    """For the page's table of contents and the file names: "ycsb", "lineitem"."""
    title: str
    text: str
    grids: Sequence[Grid] = ()
    charts: Sequence[Chart] = ()
    targets: Sequence[Target] = field(default=())
