"""TPC-H at scale factor 0.1 on a cluster of three servers with three replicas: the answers of DuckDB, replicas
alike."""

from __future__ import annotations

import nyala
import pytest
from cluster_workload import check_replicas
from nyala.testing import MiniCluster
from nyala.tpch import check
from nyala.tpch.generate import generate
from nyala.tpch.load import load
from nyala.tpch.peers import DuckDB, opened
from nyala.tpch.queries import QUERIES

pytestmark = pytest.mark.slow
SCALE_FACTOR = 0.1


def test_the_queries_have_their_answers_on_a_cluster(tmp_path):
    files = generate(SCALE_FACTOR, tmp_path / "parquet")
    with MiniCluster(tservers=3) as cluster:
        load(cluster.url, SCALE_FACTOR, buckets=4, data=files)
        assert all(len(location.replicas) == 3 for location in cluster.locations("lineitem"))
        with nyala.connect(cluster.url, threads=2) as connection, opened(DuckDB(), files, 2) as peer:
            for query in QUERIES:
                difference = check.compare(query, connection.execute(query.text).arrow(), peer.run(query.text))
                assert difference is None, f"{query.number}: {difference}"
        check_replicas(cluster)
