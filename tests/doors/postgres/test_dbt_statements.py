"""The statements that dbt sends, replayed by as many connections: in a directory, and by a gateway in front of a served
one, where changes of tables are not part of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import nyala
import pytest
from dbt_statements import GOLDEN, read
from postgres_support import dsn, served

psycopg = pytest.importorskip("psycopg")
COMMITS = "'-c ddl_commits=on'"


@contextmanager
def stores(kind: str, path: Path) -> Iterator[nyala.Connection]:
    """A directory, or a connection to a served one, which is like one to a cluster."""
    with ExitStack() as opened:
        owner = opened.enter_context(nyala.connect(path / "store", durability="os"))
        yield owner if kind == "directory" else opened.enter_context(nyala.connect(owner.serve()))


def replay(server: Any, **options: str) -> None:
    clients: dict[int, Any] = {}
    with ExitStack() as opened:
        for number, text in read(GOLDEN):
            if number not in clients:
                clients[number] = opened.enter_context(
                    psycopg.connect(dsn(server, dbname="weather", **options), autocommit=True)
                )
            clients[number].execute(text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["directory", "gateway"])
def test_the_statements_of_dbt(kind: str, tmp_path: Path) -> None:
    with stores(kind, tmp_path) as connection, served(connection) as server:
        replay(server, **({} if kind == "directory" else {"options": COMMITS}))
        latest = connection.execute("SELECT station, day FROM latest ORDER BY station").fetchall()
        assert latest == [("a", date(2026, 1, 3)), ("b", date(2026, 1, 1)), ("c", date(2026, 1, 4))]
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (5,)
        assert connection.execute("SELECT count(*) FROM warm").fetchone() == (4,)
        history = connection.execute("SELECT station, highest, dbt_valid_to IS NULL FROM stations").fetchall()
        assert sorted(history) == [("a", 2.5, False), ("a", 9.5, True), ("b", -3, True), ("c", 0.5, True)]
        names = [name for name, _ in connection.execute("SHOW TABLES").fetchall()]
        assert names == ["clean", "daily", "latest", "log", "readings", "stations", "warm"]


def test_a_gateway_refuses_them_without_the_setting(tmp_path: Path) -> None:
    with stores("gateway", tmp_path) as connection, served(connection) as server:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="not possible inside a transaction"):
            replay(server)
        assert connection.execute("SHOW TABLES").fetchall() == []
