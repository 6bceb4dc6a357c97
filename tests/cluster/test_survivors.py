"""Real processes: the service of one replica for readers when the others of its tablet are gone."""

from __future__ import annotations

import nyala
import pytest
from nyala.errors import OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow


def test_a_leader_whose_followers_are_killed_serves_the_past() -> None:
    with MiniCluster(tservers=3) as cluster:
        moments = []
        with nyala.connect(cluster.url) as connection:
            connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
            for k in range(5):
                connection.execute("INSERT INTO t VALUES (?, 0)", (k,))
                connection.execute("UPDATE t SET v = ?", (k,))
                moments.append(connection.store.now())
            for name in cluster.followers("t"):
                cluster.kill(name)
        with nyala.connect(cluster.url, deadline=3) as connection:
            for statement in ("INSERT INTO t VALUES (99, 99)", "SELECT count(*) FROM t"):
                with pytest.raises(OperationalError):
                    connection.execute(statement)
        with nyala.connect(cluster.url) as connection:
            for k, moment in enumerate(moments):
                with connection.at(moment) as past:
                    assert past.execute("SELECT count(*), min(v), max(v) FROM t").fetchone() == (k + 1, k, k)
                    assert past.execute("SELECT v FROM t WHERE k = 0").fetchone() == (k,)
