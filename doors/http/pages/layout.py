"""Rowsets over the keys of their tablet as SVG, in the colours of the page (`storage.inspect.layout` draws files).

The higher the stack above a key, the more rowsets an insert of it must search; compaction lowers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from ....storage.inspect.text import plural
from .html import Html, element, join, size

WIDTH: Final = 1000
LANE, GAP = 20, 3
MOST_TABLETS: Final = 64
"""Drawn on one page."""


def layout(rowsets: Sequence[Mapping[str, Any]]) -> Html:
    """The pictures of a table's tablets; `rowsets` are rows of `nyala_catalog.rowsets`, by tablet and least key."""
    if not rowsets:
        return join(
            [
                element("h2", "Rowsets over the keys"),
                element("p", "None at this server: rows are in memory only, or elsewhere.", class_="quiet"),
            ]
        )
    grouped = [(id_, list(found)) for id_, found in groupby(rowsets, key=lambda row: row["tablet_id"])]
    largest = max(row["disk_bytes"] for row in rowsets) or 1
    pictures = [_tablet(id_, found, largest) for id_, found in grouped[:MOST_TABLETS]]
    left = len(grouped) - len(pictures)
    more = element("p", f"{left:,} tablets are left out.", class_="quiet") if left else None
    return join([element("h2", "Rowsets over the keys"), *pictures, more])


def lanes_of(rowsets: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The rowsets, given by ascending start, in lanes without overlap: each in the lowest that is free."""
    lanes: list[list[Mapping[str, Any]]] = []
    for row in rowsets:
        free = next((lane for lane in lanes if lane[-1]["key_stop"] < row["key_start"]), None)
        if free is None:
            lanes.append([row])
        else:
            free.append(row)
    return lanes


def _tablet(tablet_id: str, rowsets: Sequence[Mapping[str, Any]], largest: int) -> Html:
    lanes = lanes_of(rowsets)
    height = len(lanes) * (LANE + GAP) + 2
    rows = sum(row["rows"] for row in rowsets)
    about = (
        f"Tablet {tablet_id}: {plural(len(rowsets), 'rowset')}, {len(lanes)} above each other, {plural(rows, 'row')}, "
        f"{size(sum(row['disk_bytes'] for row in rowsets))}, keys {rowsets[0]['min_key']} to "
        f"{max(rowsets, key=lambda row: row['key_stop'])['max_key']}"
    )
    boxes = (
        _box(row, height - (level + 1) * (LANE + GAP), largest) for level, lane in enumerate(lanes) for row in lane
    )
    line = element("line", x1=0, y1=height - 1, x2=WIDTH, y2=height - 1, stroke="currentColor")
    drawing = element(
        "svg", element("title", about), *boxes, line, viewBox=f"0 0 {WIDTH} {height}", width=WIDTH, height=height,
        role="img",
    )  # fmt: skip
    return element("figure", drawing, element("figcaption", about))


def _box(row: Mapping[str, Any], y: int, largest: int) -> Html:
    x, width = row["key_start"] * WIDTH, max(2.0, (row["key_stop"] - row["key_start"]) * WIDTH)
    keys = f"{row['min_key']} to {row['max_key']}"
    about = f"rowset {row['rowset_id']}: {row['rows']:,} rows, {size(row['disk_bytes'])}, {keys}"
    rect = element(
        "rect", x=f"{min(x, WIDTH - width):.1f}", y=y, width=f"{width:.1f}", height=LANE, rx=2, fill="#2f7fd0",
        fill_opacity=f"{0.35 + 0.65 * row['disk_bytes'] / largest:.2f}", stroke="currentColor", stroke_width="0.5",
    )  # fmt: skip
    return element("g", element("title", about), rect)
