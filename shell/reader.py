"""Splits input into statements at each `;` outside quotes and comments.

The shell needs this part of SQL's grammar before a text can be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model.lazy_dataclass import dataclass

_TOKEN = re.compile(
    r"""
      (?P<end>;)
    | (?P<open>/\*)
    | (?P<close>\*/)
    | (?P<line>--[^\n]*)
    | (?P<quote>['"])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement's text without its `;`, and the 1-based line of its source where it begins."""

    text: str
    line: int

    @property
    def placed(self) -> str:
        """The text below as many empty lines as stood before it, so that errors have the source's line number."""
        return "\n" * (self.line - 1) + self.text


def split(text: str) -> tuple[list[tuple[int, int]], bool]:
    """The spans of complete statements in `text`, and whether what follows the last one is inside quotes or comments.

    >>> split("select ';'; select 2 -- not here;")
    ([(0, 10)], False)
    """
    spans: list[tuple[int, int]] = []
    start = position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        position = match.end()
        if match["end"]:
            spans.append((start, match.start()))
            start = position
        elif match["open"]:
            position = _comment_end(text, position)
        elif match["quote"]:
            # A doubled quote closes and opens again, which comes to the same.
            position = text.find(match["quote"], position) + 1
        if position <= 0:
            return spans, True
    return spans, False


def open_quote(text: str) -> tuple[str, int]:
    r"""First character and position of the quote or comment that is open at the end of a text; ("", -1) if none is.

    >>> open_quote("select 'a', \"b"), open_quote("select 1 -- 'a")
    (('"', 12), ('-', 9))
    """
    position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        position = match.end()
        if match["open"]:
            position = _comment_end(text, position)
        elif match["quote"]:
            position = text.find(match["quote"], position) + 1
        elif match["line"] and position == len(text):
            position = 0
        if position <= 0:
            return match[0][0], match.start()
    return "", -1


def _comment_end(text: str, position: int) -> int:
    """Position after the comment that is open at `position`, nested comments included; 0 if it does not end."""
    depth = 1
    while depth:
        match = re.compile(r"/\*|\*/").search(text, position)
        if match is None:
            return 0
        depth += 1 if match[0] == "/*" else -1
        position = match.end()
    return position


def is_blank(text: str) -> bool:
    """True if a text has only space and comments.

    >>> is_blank(" -- nothing"), is_blank("select 1")
    (True, False)
    """
    position = 0
    while (match := re.compile(r"\s+|--[^\n]*|/\*").match(text, position)) is not None:
        position = match.end()
        if match[0] == "/*":
            position = _comment_end(text, position)
            if not position:
                return False
    return position >= len(text)


class StatementReader:
    """Collects lines and gives out statements and backslash commands as they become complete."""

    def __init__(self) -> None:
        self._pending = ""
        self._line = 1

    @property
    def pending(self) -> bool:
        """True if a statement has begun and is not complete."""
        return not is_blank(self._pending)

    def feed(self, text: str) -> Iterator[Statement | str]:
        """Add whole lines; yields statements, and backslash commands as str."""
        for line in text.splitlines(keepends=True):
            if not self.pending and line.lstrip().startswith("\\"):
                self._skip(self._pending + line)
                self._pending = ""
                yield line.strip()
            else:
                self._pending += line
                if ";" in line:
                    yield from self._complete()

    def finish(self) -> Iterator[Statement]:
        """Yields the rest of the input as a statement without its `;`."""
        if self.pending:
            yield self._cut(len(self._pending), 0)
        self._pending = ""

    def reset(self) -> None:
        """Discard the incomplete statement."""
        self._skip(self._pending)
        self._pending = ""

    def _complete(self) -> Iterator[Statement]:
        while True:
            spans, _ = split(self._pending)
            if not spans:
                return
            statement = self._cut(spans[0][1], 1)
            if not is_blank(statement.text):
                yield statement

    def _cut(self, stop: int, separator: int) -> Statement:
        """Take the first `stop` characters and the separator behind them."""
        text = self._pending[:stop]
        blank = len(text) - len(text.lstrip())
        statement = Statement(text.strip(), self._line + text.count("\n", 0, blank))
        self._skip(self._pending[: stop + separator])
        self._pending = self._pending[stop + separator :]
        return statement

    def _skip(self, text: str) -> None:
        self._line += text.count("\n")
