"""A table's layout as text: a bar per rowset, scaled to the terminal."""

from __future__ import annotations

from ..text import format_bytes, plural, table_lines
from .table_layout import RowSetSpan, TableLayout, TabletLayout

MIN_BAR, MAX_BAR = 10, 100


def describe_layout(layout: TableLayout, width: int = 100) -> str:
    """The layout in lines of about `width` characters; bars shrink to 10 where keys are long."""
    rowsets = sum(len(tablet.rowsets) for tablet in layout.tablets)
    lines = [
        f"table {layout.name}: {plural(len(layout.tablets), 'tablet')}, {plural(rowsets, 'rowset')}, "
        f"{plural(sum(t.rows for t in layout.tablets), 'row')}, {format_bytes(sum(t.bytes for t in layout.tablets))}, "
        f"average rowset height {layout.average_height:.2f}",
        f"key ({', '.join(layout.key)})",
    ]
    for tablet in layout.tablets:
        lines += ["", *_tablet_lines(tablet, width)]
    return "\n".join(lines)


def _tablet_lines(tablet: TabletLayout, width: int) -> list[str]:
    lines = [
        f"tablet {tablet.tablet_id}: {tablet.partition}",
        f"{plural(len(tablet.rowsets), 'rowset')}, {plural(tablet.rows, 'row')}, {format_bytes(tablet.bytes)}, "
        f"average rowset height {tablet.average_height:.2f}",
    ]
    if not tablet.rowsets:
        return [*lines, "rows that are not flushed yet lie in the log and are not counted here"]
    left = table_lines(["rowset", "rows", "bytes"], [(r.id, r.rows, r.bytes) for r in tablet.rowsets])
    right = table_lines(["from", "to"], [(r.min_key, r.max_key) for r in tablet.rowsets], left=["from", "to"])
    room = max(MIN_BAR, min(MAX_BAR, width - len(left[0]) - max(map(len, right)) - 4))
    bars = ["keys".ljust(room), *(bar(rowset, room) for rowset in tablet.rowsets)]
    return [*lines, *(f"{a}  {b}  {c}".rstrip() for a, b, c in zip(left, bars, right))]


def bar(rowset: RowSetSpan, width: int) -> str:
    """The rowset's interval among the tablet's keys as one line of `width` characters.

    >>> bar(RowSetSpan(1, 5, 99, "1", "5", 0.25, 0.5), 8)
    '··██····'
    """
    first = min(int(rowset.start * width), width - 1)
    end = max(first + 1, round(rowset.stop * width))
    return "·" * first + "█" * (end - first) + "·" * (width - end)
