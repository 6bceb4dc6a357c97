"""Functions that choose among values; NULLs are left out by Spark's as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....sql.expressions import Call
from .tree import Tree, call


def _of_several(name: str) -> Callable[[Call, list[Tree]], Tree]:
    """Spark's function, which takes no single argument."""
    return lambda expr, args: call(name, *args) if len(args) > 1 else args[0]


WRITERS: Mapping[str, Callable[[Call, list[Tree]], Tree]] = {
    name: _of_several(name) for name in ("coalesce", "greatest", "least")
}
