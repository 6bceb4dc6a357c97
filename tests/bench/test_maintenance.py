"""The maintenance policies against a model of a tablet: what hours of each workload may cost."""

from __future__ import annotations

import io

import pytest
from examples import few
from nyala.bench.maintenance import WORKLOADS, show, simulate
from nyala.storage.maintenance.compaction_policy import CompactionPolicy
from rich.console import Console

# Average height while rows come and at rest, bytes written per byte that came in, REDO files per rowset, space.
BOUNDS = {
    "uniform": (5.0, 4.0, 16.0, 0.1, 1.01),
    "time series": (2.6, 2.6, 1.1, 0.1, 1.01),
    "trickle": (1.5, 1.5, 8.0, 0.1, 1.01),
    "zipfian": (1.1, 1.1, 2.0, 6.0, 1.1),
    "mixed": (5.0, 4.0, 10.0, 6.0, 1.1),
}


@pytest.mark.parametrize("workload", few(WORKLOADS, 2), ids=lambda workload: workload.name)
def test_costs_stay_within_bounds(workload):
    *busy, rested = simulate(workload, seconds=3600, rest=600, samples=4)
    height, rest_height, written, files, space = BOUNDS[workload.name]
    assert max(sample.height for sample in busy) <= height
    assert rested.height <= rest_height
    for sample in [*busy, rested]:
        assert sample.write_amplification <= written
        assert sample.redo_files <= files
        assert sample.space_amplification <= space


def test_tiny_flushes_become_few_rowsets():
    [trickle] = [workload for workload in WORKLOADS if workload.name == "trickle"]
    *_, rested = simulate(trickle, seconds=3 * 3600, samples=1)
    assert rested.rowsets <= 15  # of about 90 flushes


@pytest.mark.slow
def test_a_higher_price_writes_less():
    [mixed] = [workload for workload in WORKLOADS if workload.name == "mixed"]
    cheap, dear = (simulate(mixed, CompactionPolicy(price=p), 1800, 0, 1)[-1] for p in (1.0, 6.0))
    assert dear.write_amplification < cheap.write_amplification
    assert dear.height > cheap.height


def test_samples_are_shown():
    console = Console(file=io.StringIO(), width=120)
    show([("trickle", simulate(WORKLOADS[2], seconds=600, rest=100, samples=2))], console)
    assert "trickle" in console.file.getvalue()
