"""HTML by construction: what is not `Html` is text, and is escaped wherever it is put.

>>> element("p", "a < b", element("b", "c"), class_="note", title='"')
'<p class="note" title="&quot;">a &lt; b<b>c</b></p>'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

_EMPTY: Final = frozenset({"br", "hr", "input", "link", "meta", "rect", "line"})
"""Elements without an end tag."""


class Html(str):
    """Text that is HTML already; made by `element` and `join` only, and of constants."""

    __slots__ = ()


NOTHING: Final = Html("")


def escaped(value: object) -> Html:
    """A value as HTML."""
    if isinstance(value, Html):
        return value
    # Control characters are no HTML; a name may have them.
    text = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in str(value))
    return Html(escape(text))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """An element. Children that are None are left out.

    Parameters
    ----------
    tag : str
    children : Html, or any value
        Values are escaped.
    attributes
        A final `_` of a name is dropped, the others become `-`. None and False leave an attribute out, True gives it no
        value.
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _EMPTY:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(children)}</{tag}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'


def join(parts: Iterable[object]) -> Html:
    """Parts one after the other."""
    return Html("".join(escaped(part) for part in parts if part is not None))


def link(text: object, path: str, **values: object) -> Html:
    """A link to a page of this server."""
    from urllib.parse import urlencode

    query = f"?{urlencode({name: str(value) for name, value in values.items()})}" if values else ""
    return element("a", text, href=path + query)


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], empty: str = "None.") -> Html:
    """A table that can be scrolled sideways by keyboard. Numbers stand to the right.

    Parameters
    ----------
    caption : str
        Title, also for screen readers.
    headings : sequence of str
    rows : sequence of sequences
        Cells; None is shown as a dash.
    empty : str
        Text in place of a table without rows.
    """
    if not rows:
        return join([element("h2", caption), element("p", empty, class_="quiet")])
    numeric = [
        any(_is_number(cell) for row in rows for cell in row[place : place + 1]) for place in range(len(headings))
    ]
    head = element(
        "tr",
        *(
            element("th", heading, scope="col", class_="number" if is_number else None)
            for heading, is_number in zip(headings, numeric, strict=True)
        ),
    )
    body = (element("tr", *(_cell(cell) for cell in row)) for row in rows)
    found = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", found, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(cell: object) -> Html:
    shown = "\N{EN DASH}" if cell is None else _shown(cell)
    return element("td", shown, class_="number" if _is_number(cell) else None)


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | Right) and not isinstance(cell, bool)


class Right(str):
    """A text that stands to the right, as a size or a duration does."""

    __slots__ = ()


def _shown(cell: object) -> object:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int | float) else cell


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Names and values; those that are None are left out."""
    rows = (element("div", element("dt", name), element("dd", value)) for name, value in pairs if value is not None)
    return element("dl", *rows)


def form(path: str, token: str, *children: object, **attributes: object) -> Html:
    """A form that is sent by POST, with the token."""
    hidden = element("input", type="hidden", name="token", value=token)
    return element("form", hidden, *children, method="post", action=path, **attributes)


def size(count: float) -> Right:
    """Bytes for people.

    >>> size(1_500_000), size(12)
    ('1.5 MB', '12 B')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return Right(f"{count:,.0f} B" if unit == "B" else f"{count:.1f} {unit}")
        count /= 1000
    return Right(f"{count:.1f} TB")


def duration(seconds: float) -> Right:
    """Seconds for people.

    >>> duration(0.0123), duration(5), duration(7384)
    ('12 ms', '5.0 s', '2 h 3 min')
    """
    if seconds < 1:
        return Right(f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2f} ms")
    if seconds < 120:
        return Right(f"{seconds:.1f} s")
    minutes = int(seconds // 60)
    if minutes < 120:
        return Right(f"{minutes} min")
    hours, minutes = divmod(minutes, 60)
    return Right(f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h")


def meter(label: str, value: float, limit: float) -> Html:
    """A share as a bar, with its numbers beside it."""
    text = f"{size(value)} of {size(limit)}"
    bar = element("meter", text, value=int(value), min=0, max=int(limit), high=int(0.8 * limit), aria_label=label)
    return join([bar, " ", text])
