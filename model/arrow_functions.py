"""The functions of `pyarrow.compute`, which is imported when the first of them is used.

`pyarrow.compute` makes a Python function, with signature and documentation, for each of Arrow's 290 functions: 35 ms
of processor time, a tenth of what a new process takes to its first row. A row by its key, and aggregates of numbers,
need none of them. A module that calls them writes

    from ...model import arrow_functions as pc

and does not look them up (`pc.equal`) while it is imported.

>>> from nyala.model import arrow_functions as pc
>>> pc.equal([1, 2], [1, 3]).to_pylist()
[True, False]
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Called for a name at its first use; AttributeError if Arrow has no function of that name."""
    function = getattr(importlib.import_module("pyarrow.compute"), name)
    globals()[name] = function
    return function
