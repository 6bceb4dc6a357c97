"""A cluster of real processes on this machine, for tests of programs that use nyala.

from nyala.testing import MiniCluster

with MiniCluster(tservers=3) as cluster, nyala.connect(cluster.url) as connection:
    ...
"""

from __future__ import annotations

from .cluster.admin.minicluster import MiniCluster

__all__ = ["MiniCluster"]
