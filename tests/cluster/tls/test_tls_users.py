"""Users on a cluster with TLS: a client's certificate lets it in, and a user lets it do something."""

from __future__ import annotations

import nyala
import pytest
from nyala.cluster.admin.certificates import files_of
from nyala.errors import InvalidPassword, LoginNeeded, NotSupportedError, PermissionDenied
from nyala.testing import MiniCluster


@pytest.mark.slow
def test_a_clients_certificate_needs_a_user_and_an_administrators_none() -> None:
    with MiniCluster(tservers=1, options={"durability": "os"}, tls=True) as cluster:
        admin = files_of(cluster.directory / "certificates", "admin").options()
        with nyala.connect(cluster.url, **cluster.tls) as client:
            client.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
            with pytest.raises(NotSupportedError, match="give the superuser a password first"):
                client.execute("CREATE USER ann PASSWORD 'of ann'")
            client.execute("ALTER USER nyala PASSWORD 'of nyala'")
            for text in ("SELECT * FROM t", "SELECT k FROM t WHERE k = 1", "INSERT INTO t VALUES (2)", "DROP TABLE t"):
                with pytest.raises(LoginNeeded, match="its certificate alone is not enough"):
                    client.execute(text).fetchall()
        with pytest.raises(LoginNeeded, match="its certificate alone is not enough"):
            nyala.connect(cluster.url, **cluster.tls)
        with pytest.raises(InvalidPassword):
            nyala.connect(cluster.url, user="nyala", password="of ann", **cluster.tls)
        with nyala.connect(cluster.url, user="nyala", password="of nyala", **cluster.tls) as own:
            own.execute("CREATE USER ann PASSWORD 'of ann'; GRANT SELECT ON t TO ann")
        with nyala.connect(cluster.url, user="ann", password="of ann", **cluster.tls) as ann:
            assert ann.execute("SELECT k FROM t").fetchall() == [(1,)]
            with pytest.raises(PermissionDenied):
                ann.execute("INSERT INTO t VALUES (2)")
        with nyala.connect(cluster.url, **admin) as connection:
            connection.execute("INSERT INTO t VALUES (2); DROP TABLE t; DROP USER ann")
