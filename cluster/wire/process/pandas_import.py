"""PyArrow without pandas, in processes that never receive a pandas object.

PyArrow imports pandas, where it is installed, as soon as a process makes its first array: it could be made of a
`Series`. That takes 0.2 s of processor time and 40 MB of memory in each server.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _Refusal(MetaPathFinder):
    """Reports that pandas is not installed."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not imported by PyArrow here", name=fullname)


def keep_pandas_out() -> None:
    """Keeps PyArrow from importing pandas for arrays in this process; must be called before the first array is made.

    `import pandas` and conversions into pandas work as before. `pa.array` no longer recognizes pandas objects.
    """
    refusal = _Refusal()
    sys.meta_path.insert(0, refusal)
    try:
        pa.array([0])  # PyArrow's Python part and its C++ part try the import, once each
    finally:
        sys.meta_path.remove(refusal)
