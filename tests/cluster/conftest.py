"""Common fixtures of tests that harm real servers. Each module defines the cluster that its tests share: `shared`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster_workload import Workload, make_whole
from nyala.testing import MiniCluster


@pytest.fixture
def cluster(shared: MiniCluster) -> Iterator[MiniCluster]:
    yield shared
    make_whole(shared)


@pytest.fixture
def workload(cluster: MiniCluster) -> Iterator[Workload]:
    yield from Workload(cluster.url).under_test(cluster)
