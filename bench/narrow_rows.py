"""The narrow table of the benchmarks of clusters: a key, two numbers, a text and one more number."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

CREATE_NARROW: Final = """
    CREATE TABLE t (k BIGINT PRIMARY KEY, a INT NOT NULL, b DOUBLE NOT NULL, c STRING NOT NULL, d BIGINT)
    DISTRIBUTE BY HASH (k) INTO 3 BUCKETS"""


def narrow_rows(start: int, count: int) -> pa.Table:
    """Returns `count` rows with the keys from `start` on."""
    keys = pa.array(range(start, start + count), pa.int64())
    columns = {
        "k": keys,
        "a": pa.array([5] * count, pa.int32()),
        "b": pa.array([0.5] * count),
        "c": keys.cast(pa.string()),
        "d": keys,
    }
    return pa.table(columns)
