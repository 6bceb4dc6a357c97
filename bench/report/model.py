"""The parts of a report: a benchmark makes a `Section` from the JSON that it saved.

Numbers are stored as numbers, so that tables and charts can be drawn from the same cells; texts are plain, not HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from ...model.lazy_dataclass import dataclass

Cell: TypeAlias = str | float | int | None


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: rows with one cell per column, the first cell of a row its name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    unit: str = ""
    """The unit of its numbers, if all have the same: "ms", "operations/s"."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Adjacent bars: for each group one value of each series, None if there is none."""

    title: str
    unit: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    """By name (an engine, a binding), one value per group."""
    scale: Literal["linear", "log"] = "linear"


@dataclass(frozen=True, slots=True)
class Target:
    """The required and the measured value; missed targets are shown like met ones."""

    what: str
    required: str
    found: str
    is_met: bool
    is_measured: bool = True
    """False if there is no number: neither met nor missed."""


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark. `text` describes the measurement in a few sentences, for a reader who has not seen it."""

    name: str
    """The name for the table of contents and the file names: "ycsb", "lineitem"."""
    title: str
    text: str
    grids: Sequence[Grid] = ()
    charts: Sequence[Chart] = ()
    targets: Sequence[Target] = field(default=())
