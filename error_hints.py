"""Parts of error messages about names: close ones, lists of them, names as a statement has them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence


def did_you_mean(
    name: str, existing: Iterable[str], what: str = "there are", written: Callable[[str], str] = str
) -> str:
    """Returns the hint after a wrong name: close names, else at most ten existing ones, else the empty string.

    `written` turns a name into the form that the user has to write.

    >>> did_you_mean("l_orderky", ["l_orderkey", "l_partkey"])
    '; did you mean l_orderkey?'
    >>> did_you_mean("x", ["alpha", "beta"], "table t has")
    '; table t has alpha, beta'
    """
    names = list(dict.fromkeys(existing))
    close = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=2, cutoff=0.7)
    originals = [n for n in names if n.lower() in close]
    if originals:
        return f"; did you mean {' or '.join(map(written, originals[:2]))}?"
    if not names:
        return ""
    shown = listed([written(n) for n in sorted(names)[:11]])
    if len(names) == 1 and what == "there are":
        what = "there is only"
    return f"; {what} {shown}"


def quoted_name(name: str) -> str:
    """Returns an SQL name, quoted unless it has only lower-case letters, digits and underscores.

    >>> quoted_name("city"), quoted_name("Weird col")
    ('city', '"Weird col"')
    """
    if re.fullmatch("[a-z_][a-z0-9_]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str], most: int = 10, separator: str = ", ") -> str:
    """Returns the first `most` names for an error message, with dots if there are more.

    >>> listed(["alpha", "beta"])
    'alpha, beta'
    >>> listed("abcde", 3, "; ")
    'a; b; c; ...'
    """
    return separator.join([*names[:most], "..."] if len(names) > most else names)
