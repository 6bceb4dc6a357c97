"""Time series of a data centre, after TSBS's devops: 31 questions about metrics of hosts.

    cpu     rows x 12    (host, time): ten metrics of each host every ten seconds, as random walks between 0 and 100
    hosts   hosts x 6    region, data centre, rack, service, team: the tags of a host
    alerts  rows / 1000  points in time of a host, irregular, for as-of questions

One point of 50 is missing, so that gaps can be filled. There is one host per 5,000 points, from 12 to 4,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from ..model import Query, QuerySuite, Size, TableSpec, queries_of
from .draws import generator, identifiers, joined, number_texts, record_batch

SEED: Final = 77
METRICS: Final = (
    *("usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait"),
    *("usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice"),
)
START: Final = datetime(2026, 1, 1)
STEP: Final = 10
"""Seconds between two points of a host."""
MISSING: Final = 50
"""One point of 50 is left out."""
_MICROSECONDS: Final = 1_000_000
_START: Final = 1_767_225_600
"""`START` in seconds since 1970."""

CPU: Final = pa.schema(
    [
        pa.field("hostname", pa.string(), nullable=False),
        pa.field("time", pa.timestamp("us"), nullable=False),
        *(pa.field(name, pa.float64()) for name in METRICS),
    ]
)
HOSTS: Final = pa.schema(
    [
        pa.field("hostname", pa.string(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("region", "datacenter", "rack", "service", "team")),
    ]
)
ALERTS: Final = pa.schema(
    [
        pa.field("alert", pa.int32(), nullable=False),
        pa.field("hostname", pa.string()),
        pa.field("time", pa.timestamp("us")),
        pa.field("severity", pa.int16()),
    ]
)


def hosts(rows: int) -> int:
    """The number of hosts."""
    return min(max(rows // 5_000, 12), 4_000)


def points(rows: int) -> int:
    """The number of points in time of a host, missing ones included."""
    return max(rows // hosts(rows), 1)


def tables(size: Size, directory: Path) -> Sequence[TableSpec]:
    return [
        TableSpec("cpu", CPU, ("hostname", "time"), lambda: _cpu(size.rows)),
        TableSpec("hosts", HOSTS, ("hostname",), lambda: _hosts(size.rows)),
        TableSpec("alerts", ALERTS, ("alert",), lambda: _alerts(size.rows)),
    ]


def _host_names(numbers: np.ndarray) -> pa.Array:
    return joined("host_", number_texts(numbers))


def _cpu(rows: int) -> Iterator[pa.RecordBatch]:
    """All points of some hosts in each batch."""
    each = points(rows)
    together = max((1 << 18) // each, 1)
    for number, first in enumerate(range(0, hosts(rows), together)):
        rng = generator(SEED, number)
        some = np.arange(first, min(first + together, hosts(rows)))
        # A hash decides which points are missing, so that it does not depend on the number of hosts in a batch.
        place = np.tile(np.arange(each), len(some))
        host = np.repeat(some, each)
        kept = identifiers(host * 1_000_003 + place, 1) % MISSING != 0
        seconds = _START + place[kept] * STEP
        columns: dict[str, pa.Array | np.ndarray] = {
            "hostname": _host_names(host[kept]),
            "time": pa.array(seconds * _MICROSECONDS, pa.timestamp("us")),
        }
        for name in METRICS:
            walks = np.cumsum(rng.normal(0, 5, (len(some), each)), axis=1) + rng.random((len(some), 1)) * 100
            columns[name] = np.round(_folded(walks).ravel()[kept], 2)
        yield record_batch(CPU, columns)


def _folded(walks: np.ndarray) -> np.ndarray:
    """Values reflected at 0 and 100."""
    folded: np.ndarray = np.abs((walks + 100) % 200 - 100)
    return folded


def _hosts(rows: int) -> Iterator[pa.RecordBatch]:
    numbers = np.arange(hosts(rows))
    tags = {"region": 9, "datacenter": 30, "rack": 100, "service": 20, "team": 4}
    columns: dict[str, pa.Array | np.ndarray] = {"hostname": _host_names(numbers)}
    for salt, (name, values) in enumerate(tags.items()):
        columns[name] = joined(f"{name}-", number_texts(identifiers(numbers, salt) % values))
    yield record_batch(HOSTS, columns)


def _alerts(rows: int) -> Iterator[pa.RecordBatch]:
    count = max(rows // 1_000, 20)
    rng = generator(SEED + 1, 0)
    # Within the last nine tenths, so that each alert has a point before it.
    seconds = _START + (points(rows) * STEP * (0.1 + 0.9 * rng.random(count))).astype(np.int64) + 3
    columns: dict[str, pa.Array | np.ndarray] = {
        "alert": np.arange(count),
        "hostname": _host_names(rng.integers(0, hosts(rows), count)),
        "time": pa.array(seconds * _MICROSECONDS, pa.timestamp("us")),
        "severity": rng.integers(1, 6, count),
    }
    yield record_batch(ALERTS, columns)


def queries(size: Size) -> list[Query]:
    """The 31 questions, about spans in the middle of the points."""
    seconds = points(size.rows) * STEP
    middle = START + timedelta(seconds=seconds // 2)
    spans = {"hour": 3_600, "day": 43_200, "short": 300}
    values: dict[str, object] = {
        name: middle + timedelta(seconds=min(length, seconds // 2)) for name, length in spans.items()
    }
    last = START + timedelta(seconds=seconds)
    return queries_of("timeseries.sql", values | {"start": middle, "first": START, "last": last})


SUITE: Final = QuerySuite(
    "timeseries",
    "Time series",
    "31 questions about ten metrics of hosts every ten seconds, after TSBS's devops: single hosts, maxima and means by "
    "host and time, thresholds, last points, gap filling, percentiles, top-N, as-of and lag, downsampling, tags.",
    "rows",
    3_000_000,
    tables,
    queries,
)
