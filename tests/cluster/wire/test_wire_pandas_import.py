"""Servers make arrays without pandas, which is there for those who import it."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
import pyarrow as pa
from nyala.cluster.wire.process.pandas_import import keep_pandas_out

keep_pandas_out()
values = pa.array(["a", None])
assert values.to_pylist() == ["a", None]
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("nyala.")]
print("pandas" in sys.modules)
print(pa.table({"s": values}).to_pandas()["s"].isna().tolist())
import pandas
assert pandas.DataFrame({"k": [1, 2]})["k"].sum() == 3
"""


def test_arrays_of_a_server_import_no_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("False\n[False, True]\n", "")
