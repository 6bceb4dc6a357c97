"""The measured cluster: three tablet servers and a master on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..cluster.admin.minicluster import MiniCluster

SERVERS: Final = 3


def started_cluster(directory: Path, durability: str = "fsync") -> MiniCluster:
    """Starts a cluster in a directory.

    Its servers have the default options of `nyala tserver`: those for tests have too little memory for the pages of a
    benchmark's tables.
    """
    return MiniCluster(tservers=SERVERS, directory=directory, options={"durability": durability}, defaults={})
