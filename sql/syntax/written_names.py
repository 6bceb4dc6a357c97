"""Names in SQL syntax: quoted if they would be parsed as anything else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sqlglot import exp

from ... import errors
from .dialect import NyalaTokenizer
from .parser import parse

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
_TRIALS: Final = (
    "SELECT {0}, t.{0} FROM {0} AS t JOIN {0} ON t.{0} = {0} WHERE {0} = 1 GROUP BY {0} ORDER BY {0}",
    "INSERT INTO {0} ({0}) SELECT {0} FROM {0}",
    "UPDATE {0} SET {0} = 1",
    "CREATE TABLE {0} ({0} INT, PRIMARY KEY ({0}))",
    "DROP TABLE {0}",
)
"""Positions of a name. A keyword may be a name in some of these positions and not in others."""


_WORDS: Final = frozenset(word.lower() for phrase in NyalaTokenizer.KEYWORDS for word in phrase.split())
_RESERVED_WORDS: Final = """
    all analyze and any array as asc between both case cast check collate column constraint create current_date
    current_timestamp default desc distinct do else end except exists false fetch for foreign from full group having in
    inner intersect interval into is join lateral leading left like limit natural not null offset on only or order outer
    over primary references returning right select set some symmetric table then to trailing true union unique update
    using values when where window with"""
_RESERVED: Final = frozenset(_RESERVED_WORDS.split())
"""Words that readers of SQL and other databases do not accept as names, even where this grammar does."""


@lru_cache(maxsize=10_000)
def written_name(name: str) -> str:
    """A name in SQL syntax.

    >>> [written_name(name) for name in ("city", "Weird col", "order", 'a"b')]
    ['city', '"Weird col"', '"order"', '"a""b"']
    """
    if _PLAIN.fullmatch(name) and (name not in _WORDS or _is_free(name)):
        return name
    return '"' + name.replace('"', '""') + '"'


def did_you_mean(name: str, existing: Iterable[str], what: str = "there are") -> str:
    """As `errors.did_you_mean`, with the names in SQL syntax.

    >>> did_you_mean("weird col", ["Weird col", "k"])
    '; did you mean "Weird col"?'
    """
    return errors.did_you_mean(name, existing, what, written_name)


def _is_free(word: str) -> bool:
    """True if a keyword may be a name in every position."""
    return word not in _RESERVED and all(_is_read(trial.format(word), word) for trial in _TRIALS)


def _is_read(text: str, name: str) -> bool:
    """True if the text parses as a statement in which the name is a column, not a call or a constant."""
    try:
        tree = parse(text)[0].tree
    except errors.Error:
        return False
    return not isinstance(tree, exp.Select) or (
        isinstance(tree.expressions[0], exp.Column) and tree.expressions[0].name == name
    )
