"""Functions that select among values; Spark's ignore NULLs as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....sql.expressions import Call
from .tree import Tree, call


def _of_several(name: str) -> Callable[[Call, list[Tree]], Tree]:
    """A Spark function that requires at least two arguments."""
    return lambda expr, args: call(name, *args) if len(args) > 1 else args[0]


WRITERS: Mapping[str, Callable[[Call, list[Tree]], Tree]] = {
    name: _of_several(name) for name in ("coalesce", "greatest", "least")
}
