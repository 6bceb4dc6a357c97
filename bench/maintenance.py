"""Simulates the maintenance policies under workloads of hours, in seconds: `nyala bench maintenance`.

    uniform      inserts with random keys: every flush covers all keys
    time series  ascending keys, the last minutes out of order; small flushes
    trickle      the same, a few rows per second: tiny flushes that must be compacted eventually (KUDU-1400)
    zipfian      updates of 2 GB at rest, most of them to few rows
    mixed        random inserts, and updates of random rows

After the load, each continues without writes: a height that is still above 1 then is permanent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table as TextTable

from ..model.lazy_dataclass import dataclass
from ..storage.maintenance.compaction_policy import CompactionPolicy
from .maintenance_model import STEP, Load, ModelTablet, Sample

SECONDS = 2 * 3600
REST_SECONDS = 1800
SAMPLES = 4
_NO_UPDATES = np.empty(0)
_UPDATES = 200
"""Keys drawn per step; each represents many updates."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`load` returns the input of the next `STEP` seconds; `start` is the initial number of rows."""

    name: str
    load: Callable[[int, np.random.Generator], Load]
    start: float = 0.0


def _uniform(second: int, random: np.random.Generator) -> Load:
    return Load(10_000 * STEP, 0.0, 1.0, _NO_UPDATES)


def _time_series(second: int, random: np.random.Generator) -> Load:
    return Load(10_000 * STEP, max(0.0, (second - 60) / SECONDS), (second + STEP) / SECONDS, _NO_UPDATES)


def _trickle(second: int, random: np.random.Generator) -> Load:
    return Load(50 * STEP, max(0.0, (second - 60) / SECONDS), (second + STEP) / SECONDS, _NO_UPDATES)


def _zipfian(second: int, random: np.random.Generator) -> Load:
    ranks = np.minimum(random.zipf(1.3, _UPDATES), 1 << 20)
    places = (ranks * 0.6180339887498949) % 1.0  # spread over the keys
    return Load(0, 0.0, 1.0, places, 25.0 * STEP)


def _mixed(second: int, random: np.random.Generator) -> Load:
    return Load(3_000 * STEP, 0.0, 1.0, random.random(_UPDATES), 10.0 * STEP)


WORKLOADS = (
    Workload("uniform", _uniform),
    Workload("time series", _time_series),
    Workload("trickle", _trickle),
    Workload("zipfian", _zipfian, start=20e6),
    Workload("mixed", _mixed, start=20e6),
)


def simulate(
    workload: Workload,
    policy: CompactionPolicy | None = None,
    seconds: int = SECONDS,
    rest: int = REST_SECONDS,
    samples: int = SAMPLES,
) -> list[Sample]:
    """Samples of the tablet at equal intervals, the last one after a rest without writes."""
    random = np.random.default_rng(1)
    tablet = ModelTablet(policy or CompactionPolicy())
    if workload.start:
        tablet.bulk_load(workload.start, 0.0, 1.0)
    found = []
    for number in range(1, samples + 1):
        while tablet.seconds < seconds * number // samples:
            tablet.pass_time(workload.load(tablet.seconds, random))
        found.append(tablet.sample())
    while tablet.seconds < seconds + rest:
        tablet.pass_time(Load(0, 0.0, 1.0, _NO_UPDATES))
    return [*found, tablet.sample()]


def show(results: Sequence[tuple[str, Sequence[Sample]]], console: Console) -> None:
    """Prints a table of samples."""
    table = TextTable("workload", title="Maintenance policies, simulated")
    for heading in ("hours", "GB", "rowsets", "height", "REDO files", "space x", "written x"):
        table.add_column(heading, justify="right")
    for name, samples in results:
        for number, sample in enumerate(samples):
            table.add_row(
                "" if number else name,
                f"{sample.seconds / 3600:.1f}",
                f"{sample.bytes / 1e9:.2f}",
                str(sample.rowsets),
                f"{sample.height:.2f}",
                f"{sample.redo_files:.1f}",
                f"{sample.space_amplification:.2f}",
                f"{sample.write_amplification:.2f}",
                end_section=number + 1 == len(samples),
            )
    console.print(table)
