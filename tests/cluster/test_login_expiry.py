"""Logins that expire while a client works: real processes, and tokens that are valid for two seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import nyala
import pytest
from nyala.cluster.client.client import Client
from nyala.cluster.client.login import Login
from nyala.errors import AccessDenied, InvalidPassword, LoginExpired, LoginNeeded, PermissionDenied
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow
REFUSED = (AccessDenied, InvalidPassword, LoginExpired, LoginNeeded, PermissionDenied)


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    options = {"durability": "os", "master.login-seconds": "2"}
    with MiniCluster(tservers=1, masters=1, options=options) as cluster:
        with nyala.connect(cluster.url) as owner:
            owner.execute("CREATE TABLE t (k INT PRIMARY KEY); CREATE USER ann PASSWORD 'of ann'")
            owner.execute("GRANT SELECT, INSERT ON t TO ann")
        yield cluster


def login_of(connection: nyala.Connection) -> Login:
    assert isinstance(connection.store, Client) and connection.store._login is not None
    return connection.store._login


def count(connection: nyala.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").fetchall()[0][0])


def test_a_client_logs_in_again_before_its_token_expires(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url, user="ann", password="of ann") as ann:
        login, before = login_of(ann), count(ann)
        tokens, rows = {login.token}, 0
        while len(tokens) < 4:  # the first ones have expired by then
            ann.execute("INSERT INTO t VALUES (?)", [before + rows])
            rows += 1
            assert count(ann) == before + rows
            tokens.add(login.token)


def test_a_token_that_a_server_refuses_is_replaced(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url, user="ann", password="of ann") as ann:
        login = login_of(ann)
        login._renew_at = time.time() + 1000  # as if the machine had been suspended
        first, until = login.token, time.time() + 2.5
        cluster.wait_until(lambda: time.time() > until, "the token has expired")
        assert login.token == first
        assert count(ann) >= 0
        assert login.token != first


def test_users_that_may_not_log_in_any_more_are_refused(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as owner:
        owner.execute("CREATE USER ben PASSWORD 'of ben'; GRANT SELECT ON t TO ben")
        with nyala.connect(cluster.url, user="ben", password="of ben") as ben:
            assert count(ben) >= 0
            owner.execute("ALTER USER ben PASSWORD 'another'")
            with pytest.raises(REFUSED):  # at once: the token has not expired yet
                count(ben)
        with pytest.raises(InvalidPassword):  # connections of one process to one store share its login
            nyala.connect(cluster.url, user="ben", password="of ben")
        with nyala.connect(cluster.url, user="ben", password="another") as again:
            assert count(again) >= 0
            owner.execute("REVOKE ALL ON t FROM ben; DROP USER ben")
            with pytest.raises(REFUSED):
                count(again)
