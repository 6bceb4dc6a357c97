"""Charts as inline SVG, for a page without scripts, in the colours of its style sheet: classes c0 to c9, light or dark.

Few groups are drawn as adjacent panels, one for each group, in which every bar has its name and its number above it.
Their layout is in percent of the panel's width, so that text keeps its size on a phone:

    ┌ look up ───────────┐ ┌ update ────────────┐
    │ nyala       13,110 │ │ nyala        6,015 │
    │ ▇▇▇                │ │ ▇▇▇▇▇▇▇            │
    │ SQLite      66,480 │ │ SQLite      14,732 │
    │ ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ │ │ ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ │
    └────────────────────┘ └────────────────────┘

More groups, such as the queries of TPC-H, are columns over an axis, which scroll sideways if they do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from .cells import NOTHING, shown
from .model import Chart

US: Final = "nyala"
MOST_PANELS: Final = 9
COLOURS: Final = 10
_OF_NAMES: Final = (
    ("nyala-sql", 1),
    ("nyala-parquet", 8),
    ("executor on parquet", 8),
    ("cluster", 2),
    ("sqlite", 3),
    ("duckdb on parquet", 9),
    ("duckdb", 4),
    ("postgres", 5),
    ("rocksdb", 6),
    ("over nyala", 7),
    ("spark", 5),
    ("parquet", 4),
    ("nyala", 0),
)
"""The colours in every chart, by the first name that is part of a series' name."""
_ROW: Final = 34
_BAR_TOP: Final = 17
_BAR_HEIGHT: Final = 9
_HEIGHT: Final = 260
_LEFT: Final = 58
_BOTTOM: Final = 26
_TOP: Final = 10


def colours(names: Sequence[str]) -> dict[str, int]:
    """The number of a colour for each series; no two are equal as long as there are enough colours."""
    found: dict[str, int] = {}
    for name in names:
        wanted = next((colour for part, colour in _OF_NAMES if part in name.lower()), None)
        if wanted is not None and wanted not in found.values():
            found[name] = wanted
    for name in names:
        if name not in found:
            free = (colour for colour in range(COLOURS) if colour not in found.values())
            found[name] = next(free, len(found) % COLOURS)
    return {name: found[name] for name in names}


def drawn(chart: Chart) -> str:
    """A chart as HTML; empty for one without numbers."""
    if not any(_is_there(value) for values in chart.series.values() for value in values):
        return ""
    unit = f' <span class="unit">{escape(chart.unit)}</span>' if chart.unit else ""
    if len(chart.groups) > MOST_PANELS:
        body = f'{_legend(chart)}<div class="scroll">{_columns(chart)}</div>'
    else:
        panels = "".join(_panels(chart))
        note = "Each panel has its own scale." if panels.count("<div") > 1 else ""
        scale = "Logarithmic scale." if chart.scale == "log" else ""
        told = " ".join(part for part in (note, scale) if part)
        body = f'<div class="panels">{panels}</div>' + (f'<p class="note">{told}</p>' if told else "")
    return f'<figure class="chart"><figcaption>{escape(chart.title)}{unit}</figcaption>{body}</figure>'


def _is_there(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value >= 0


# ---- panels ----------------------------------------------------------------------------------------------------------


def _panels(chart: Chart) -> Iterator[str]:
    colour = colours(list(chart.series))
    if len(chart.series) == 1:  # adjacent groups are more readable than a panel for each
        ((name, values),) = chart.series.items()
        yield _panel("", chart, [(group, colour[name], value) for group, value in zip(chart.groups, values)])
        return
    for number, group in enumerate(chart.groups):
        bars = [(name, colour[name], values[number]) for name, values in chart.series.items()]
        yield _panel(group, chart, bars)


def _panel(group: str, chart: Chart, bars: Sequence[tuple[str, int, float | None]]) -> str:
    there = [value for _, _, value in bars if value is not None and _is_there(value)]
    low, high = _limits(there, chart.scale)
    rows = []
    for number, (name, colour, value) in enumerate(bars):
        top = number * _ROW
        known = value is not None and _is_there(value)
        width = 100 * _fraction(value, low, high, chart.scale) if value is not None and known else 0.0
        text = shown(value) if known else NOTHING
        strong = ' class="us"' if name == US else ""
        rows.append(
            f'<text x="0" y="{top + 12}"{strong}>{escape(name)}</text>'
            f'<text x="100%" y="{top + 12}" text-anchor="end"{strong}>{escape(text)}</text>'
            f'<rect class="track" x="0" y="{top + _BAR_TOP}" width="100%" height="{_BAR_HEIGHT}" rx="2"/>'
            f'<rect class="c{colour}" x="0" y="{top + _BAR_TOP}" width="{width:.2f}%" height="{_BAR_HEIGHT}" rx="2"/>'
        )
    label = escape(f"{chart.title}{', ' if group else ''}{group}", quote=True)
    heading = f"<h5>{escape(group)}</h5>" if group else ""
    height = len(bars) * _ROW
    return (
        f'<div class="panel">{heading}<svg role="img" aria-label="{label}" width="100%" height="{height}">'
        f"{''.join(rows)}</svg></div>"
    )


def _limits(values: Sequence[float], scale: str) -> tuple[float, float]:
    """The limits of the axis."""
    high = max(values, default=1.0) or 1.0
    if scale == "linear":
        return 0.0, high
    positive = [value for value in values if value > 0]
    low = 10.0 ** math.floor(math.log10(min(positive, default=1.0)))
    # The smallest bar must be visible as well.
    if positive and min(positive) < 1.3 * low:
        low /= 2
    return low, max(high, 2 * low)


def _fraction(value: float, low: float, high: float, scale: str) -> float:
    """The position of a value on the axis, 0 to 1."""
    if scale == "linear":
        return max(0.0, min(1.0, value / high))
    return 0.0 if value <= low else min(1.0, math.log(value / low) / math.log(high / low))


# ---- columns ---------------------------------------------------------------------------------------------------------


def _legend(chart: Chart) -> str:
    if len(chart.series) == 1:
        return ""
    items = "".join(
        f'<span><svg width="12" height="12" aria-hidden="true"><rect class="c{colour}" width="12" height="12" rx="2"/>'
        f"</svg>{escape(name)}</span>"
        for name, colour in colours(list(chart.series)).items()
    )
    return f'<div class="legend">{items}</div>'


def _columns(chart: Chart) -> str:
    colour = colours(list(chart.series))
    values = [value for some in chart.series.values() for value in some if value is not None and _is_there(value)]
    low, high = _limits(values, chart.scale)
    ticks = list(_ticks(low, high, chart.scale))
    high = max(high, ticks[-1])
    longest = max(len(group) for group in chart.groups)
    step = max(len(chart.series) * 7 + 9, longest * 7 + 8)
    width = _LEFT + step * len(chart.groups) + 8
    parts = [_grid_line(tick, _place(tick, low, high, chart.scale), width) for tick in ticks]
    inner = step - 8
    each = min(inner / len(chart.series), 26.0)
    for group, name in enumerate(chart.groups):
        left = _LEFT + group * step + (step - each * len(chart.series)) / 2
        for number, (series, some) in enumerate(chart.series.items()):
            value = some[group]
            if value is None or not _is_there(value):
                continue
            top = _place(value, low, high, chart.scale)
            told = escape(f"{name}, {series}: {shown(value)} {chart.unit}".strip())
            parts.append(
                f'<rect class="c{colour[series]}" x="{left + number * each:.1f}" y="{top:.1f}" '
                f'width="{max(each - 1, 1):.1f}" height="{_HEIGHT - _BOTTOM - top:.1f}" rx="1">'
                f"<title>{told}</title></rect>"
            )
        middle = _LEFT + (group + 0.5) * step
        parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(name)}</text>')
    label = escape(chart.title, quote=True)
    return (
        f'<svg class="columns" role="img" aria-label="{label}" width="{width}" height="{_HEIGHT}" '
        f'viewBox="0 0 {width} {_HEIGHT}">{"".join(parts)}</svg>'
    )


def _place(value: float, low: float, high: float, scale: str) -> float:
    return _TOP + (_HEIGHT - _BOTTOM - _TOP) * (1 - _fraction(value, low, high, scale))


def _grid_line(tick: float, top: float, width: int) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{width}" y1="{top:.1f}" y2="{top:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{top + 4:.1f}" text-anchor="end">{_tick_text(tick)}</text>'
    )


def _tick_text(tick: float) -> str:
    return f"{tick:,g}" if tick < 1e6 else f"{tick / 1e6:,g} M"


def _ticks(low: float, high: float, scale: str) -> Iterator[float]:
    """Powers of ten; or about four multiples of 1, 2 or 5, the last of them not below `high`."""
    if scale == "log":
        exponent = math.floor(math.log10(low))
        last = math.ceil(math.log10(high))
        yield from (10.0**power for power in range(exponent, last + 1) if 10.0**power >= low)
        return
    rough = high / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    yield from (step * number for number in range(math.ceil(high / step - 1e-9) + 1))
