"""Names of a package that are imported when they are first used (PEP 562).

    if TYPE_CHECKING:
        from .plan import plan_query

    __getattr__ = imported_at_first_use(__name__, {"plan_query": "plan"})

`from planner import plan_query` then imports the module `plan`; `import planner` does not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def imported_at_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Parameters
    ----------
    package : str
        Its `__name__`.
    modules : mapping of str to str
        By each name the module in the package that defines it, as in `from .module import name`.
    """

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
