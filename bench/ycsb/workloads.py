"""YCSB's core workloads A to F, from its files workloada to workloadf; the paper's Table 4 has A to D.

| | operations | keys | an application of this kind |
|---|---|---|---|
| A | 50 % read, 50 % update | zipfian | sessions that note recent actions |
| B | 95 % read, 5 % update | zipfian | tags on photographs |
| C | 100 % read | zipfian | a cache of profiles made elsewhere |
| D | 95 % read, 5 % insert | latest | the newest messages of users |
| E | 95 % scan of 1 to 100 rows, 5 % insert | zipfian | threads of a conversation |
| F | 50 % read, 50 % read-modify-write | zipfian | records that users read and change |

A read returns all fields of a row, an update sets one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .model import Distribution, Kind, Workload

WORKLOADS: Final = {
    workload.name: workload
    for workload in (
        Workload("A", "50% reads, 50% updates", {Kind.READ: 0.5, Kind.UPDATE: 0.5}),
        Workload("B", "95% reads, 5% updates", {Kind.READ: 0.95, Kind.UPDATE: 0.05}),
        Workload("C", "reads only", {Kind.READ: 1.0}),
        Workload("D", "95% reads of the latest, 5% inserts", {Kind.READ: 0.95, Kind.INSERT: 0.05}, "latest"),
        Workload("E", "95% short scans, 5% inserts", {Kind.SCAN: 0.95, Kind.INSERT: 0.05}),
        Workload("F", "50% reads, 50% read-modify-writes", {Kind.READ: 0.5, Kind.READ_MODIFY_WRITE: 0.5}),
    )
}
"""By letter, in the order of the run."""


def with_distribution(workload: Workload, distribution: Distribution) -> Workload:
    """The same operations on keys of another distribution, as in the paper's second run.

    A workload of the latest rows keeps its distribution, which defines it.
    """
    if workload.distribution == "latest":
        return workload
    return replace(workload, distribution=distribution)
