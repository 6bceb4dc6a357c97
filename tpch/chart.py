"""Draws a comparison: a group of bars per query and one for the geometric mean, on a logarithmic scale.

Drawn by matplotlib, an optional extra, without a display.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .compare import US, Report
from .run import geometric_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which are distinguishable with any kind of colour blindness.
_COLOURS: Final = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
_GROUP_WIDTH: Final = 0.84
"""Width of the bars of one query; the next query's begin at 1."""


_CHARACTER: Final = 0.078
"""Inches of a character in a legend, an upper estimate; measured with the default font."""
_MARKS: Final = 1.4
"""Inches of the legend's marks and gaps, for two columns."""
_LINE: Final = 0.22
"""Inches of a line of the legend."""


def missing() -> str | None:
    """The installation advice for matplotlib; None if it is installed."""
    if find_spec("matplotlib") is not None:
        return None
    return "no chart, because matplotlib is not installed; try: pip install 'nyala[tpch]', or pip install matplotlib"


def draw(report: Report, path: Path) -> None:
    """Writes the chart as PNG; requires matplotlib."""
    figure_of(report).savefig(path, format="png", dpi=150)


def figure_of(report: Report) -> Figure:
    """The chart, wide and high enough for its bars, its title and its legend."""
    from matplotlib.figure import Figure  # not pyplot, which keeps figures and looks for a display

    groups = [f"Q{result.number}" for result in report.results] + ["mean"]
    labels = [_label(report, name, version) for name, version in report.versions.items()]
    wide = max(6.0, 0.09 * len(groups) * len(labels) + 2, max(map(len, labels)) * _CHARACTER + _MARKS)
    columns = _legend_columns(labels, wide)
    high = 4.8 + _LINE * max(0, -(-len(labels) // columns) - 3)
    figure = Figure(figsize=(wide, high), layout="constrained")
    axes = figure.subplots()
    width = _GROUP_WIDTH / len(report.versions)
    for number, name in enumerate(report.versions):
        places, heights = _bars(report, name)
        offset = (number - (len(report.versions) - 1) / 2) * width
        colour = _COLOURS[number % len(_COLOURS)]
        axes.bar([p + offset for p in places], heights, width, label=labels[number], color=colour)
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_ylabel("milliseconds (less is better)")
    axes.set_title(
        f"TPC-H, scale factor {report.manifest.scale_factor:g}, {report.threads} threads: "
        f"medians of {report.runs} warm runs",
        loc="left",
    )
    axes.grid(axis="y", which="major", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower left", ncols=columns, frameon=False)
    return figure


def _legend_columns(labels: list[str], wide: float) -> int:
    """The number of columns that fit into a legend of a picture of `wide` inches."""
    return 2 if 2 * max(map(len, labels)) * _CHARACTER + _MARKS <= wide else 1


def _bars(report: Report, name: str) -> tuple[list[int], list[float]]:
    """Positions and heights in milliseconds of one engine's bars, without wrong answers; the mean comes last."""
    outcomes = [result.outcomes[name] for result in report.results]
    places = [place for place, outcome in enumerate(outcomes) if not outcome.trouble]
    heights = [1000 * outcomes[place].median for place in places]
    return ([*places, len(outcomes)], [*heights, geometric_mean(heights)]) if heights else ([], [])


def _label(report: Report, name: str, version: str) -> str:
    ratio = None if name == US else report.mean_ratio(name)
    shown = name if name in version else f"{name} ({version})"
    return shown if ratio is None else f"{shown}: {US} takes {ratio:.2f} of its time"
