"""What error messages say of names: close ones, lists of them, names as a statement has them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence


def did_you_mean(
    name: str, existing: Iterable[str], what: str = "there are", written: Callable[[str], str] = str
) -> str:
    """A sentence that helps after a wrong name: the close ones, else what exists (at most ten), else nothing.

    `written` turns a name into what the user has to write.

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
    """A name of SQL, in quotes where it is more than small letters, digits and underscores.

    >>> quoted_name("city"), quoted_name("Weird col")
    ('city', '"Weird col"')
    """
    if re.fullmatch("[a-z_][a-z0-9_]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str], most: int = 10, separator: str = ", ") -> str:
    """Some names for an error: the first, and dots where there are more.

    >>> listed(["alpha", "beta"])
    'alpha, beta'
    >>> listed("abcde", 3, "; ")
    'a; b; c; ...'
    """
    return separator.join([*names[:most], "..."] if len(names) > most else names)
