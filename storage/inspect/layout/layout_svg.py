"""A table's layout as an SVG picture: per tablet a band, rowsets as boxes over the keys, stacked where they overlap.

As Kudu's tablet server draws it: the higher the stack above a key, the more rowsets an insert of it must search. The
colour shows the size of a rowset relative to the largest of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from ..text import format_bytes, plural, shorten
from .table_layout import RowSetSpan, TableLayout, TabletLayout

WIDTH, MARGIN = 1000, 20
LANE, GAP, TITLE = 22, 3, 42
_LABEL_ROOM = 70


def draw_layout(layout: TableLayout) -> str:
    """An SVG document."""
    largest = max((r.bytes for t in layout.tablets for r in t.rowsets), default=1) or 1
    parts: list[str] = []
    top = MARGIN + TITLE
    for tablet in layout.tablets:
        lanes = stacked(tablet.rowsets)
        parts += _tablet_parts(tablet, lanes, top, largest)
        top += TITLE + max(1, len(lanes)) * (LANE + GAP) + MARGIN
    title = f"table {layout.name}, key ({', '.join(layout.key)}): average rowset height {layout.average_height:.2f}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 2 * MARGIN}" height="{top}" '
            f'viewBox="0 0 {WIDTH + 2 * MARGIN} {top}" font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="{MARGIN}" y="{MARGIN + 14}" font-size="16">{escape(title)}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def stacked(rowsets: Sequence[RowSetSpan]) -> list[list[RowSetSpan]]:
    """The rowsets, given by ascending start, in lanes without overlap: each in the lowest that is free."""
    lanes: list[list[RowSetSpan]] = []
    for rowset in rowsets:
        for lane in lanes:
            if lane[-1].stop < rowset.start:
                lane.append(rowset)
                break
        else:
            lanes.append([rowset])
    return lanes


def _tablet_parts(tablet: TabletLayout, lanes: Sequence[Sequence[RowSetSpan]], top: int, largest: int) -> list[str]:
    text = (
        f"tablet {tablet.tablet_id}: {tablet.partition}; {plural(len(tablet.rowsets), 'rowset')}, "
        f"{plural(tablet.rows, 'row')}, {format_bytes(tablet.bytes)}, average rowset height "
        f"{tablet.average_height:.2f}"
    )
    base = top + TITLE // 2 + max(1, len(lanes)) * (LANE + GAP)
    parts = [f'<text x="{MARGIN}" y="{top + 12}">{escape(text)}</text>']
    for height, lane in enumerate(lanes, 1):
        parts += [_box(rowset, base - height * (LANE + GAP), largest) for rowset in lane]
    parts.append(f'<line x1="{MARGIN}" y1="{base}" x2="{MARGIN + WIDTH}" y2="{base}" stroke="black"/>')
    if tablet.rowsets:
        least = shorten(tablet.rowsets[0].min_key)
        greatest = shorten(max(tablet.rowsets, key=lambda r: r.stop).max_key)
        parts.append(f'<text x="{MARGIN}" y="{base + 14}">{escape(least)}</text>')
        parts.append(f'<text x="{MARGIN + WIDTH}" y="{base + 14}" text-anchor="end">{escape(greatest)}</text>')
    return parts


def _box(rowset: RowSetSpan, y: int, largest: int) -> str:
    x, width = MARGIN + rowset.start * WIDTH, max(2.0, (rowset.stop - rowset.start) * WIDTH)
    x = min(x, MARGIN + WIDTH - width)
    lightness = round(85 - 45 * rowset.bytes / largest)
    about = (
        f"rowset {rowset.id}: {plural(rowset.rows, 'row')}, {format_bytes(rowset.bytes)}, "
        f"{rowset.min_key} to {rowset.max_key}"
    )
    label = f'<text x="{x + 4:.1f}" y="{y + 15}">rowset {rowset.id}</text>' if width > _LABEL_ROOM else ""
    return (
        f'<g><title>{escape(about)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LANE}" '
        f'fill="hsl(210, 60%, {lightness}%)" stroke="white"/>{label}</g>'
    )
