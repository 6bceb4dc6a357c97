"""A gateway in front of a store with users, whatever kind the store is."""

from __future__ import annotations

import time

import nyala
import psycopg
import pytest
from nyala.cli.doors import DoorOptions, Doors
from nyala.cluster.client.catalog.catalog_cache import REFRESH_SECONDS
from nyala.doors.postgres.server.options import PostgresOptions
from nyala.errors import InterfaceError

OBJECTS = (
    "CREATE TABLE t (k INT PRIMARY KEY)",
    "CREATE TABLE secrets (k INT PRIMARY KEY)",
    "CREATE VIEW of_secrets AS SELECT count(*) AS n FROM secrets",
    "CREATE USER gus PASSWORD 'of gus'",
    "GRANT SELECT, INSERT ON t TO gus",
    "GRANT SELECT ON of_secrets TO gus",
)


def users_of_a_gateway(owner: nyala.Connection, url: str) -> None:
    """Checks that clients of a gateway in front of `url` are users of the store that `owner` has all rights on."""
    for statement in OBJECTS:
        owner.execute(statement)
    with (
        nyala.connect(url, user="gus", password="of gus") as gus,
        pytest.raises(InterfaceError, match="user gus is no superuser"),
    ):
        Doors(gus, DoorOptions(PostgresOptions(), None))
    gateway = Doors(nyala.connect(url), DoorOptions(PostgresOptions(), None))
    gateway.start()
    try:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(f"postgresql://gus:wrong@{gateway.address}/")
        with psycopg.connect(f"postgresql://gus:of%20gus@{gateway.address}/", autocommit=True) as client:
            client.execute("INSERT INTO t VALUES (1)")
            assert client.execute("SELECT k, current_user FROM t").fetchall() == [(1, "gus")]
            # The view has the rights of its owner: the gateway computes it.
            assert client.execute("SELECT n FROM of_secrets").fetchone() == (0,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for table secrets: user gus needs SELECT"):
                client.execute("SELECT * FROM secrets")
            owner.execute("REVOKE INSERT ON t FROM gus")
            # The gateway has the grants of the last second, also if it has been idle since.
            time.sleep(REFRESH_SECONDS)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for table t: user gus needs INSERT"):
                client.execute("INSERT INTO t VALUES (2)")
    finally:
        gateway.drain()
        gateway.stop()
    assert owner.execute("SELECT k FROM t").fetchall() == [(1,)]
    owner.execute("DROP VIEW of_secrets; DROP TABLE secrets; DROP TABLE t; DROP USER gus FORCE")
