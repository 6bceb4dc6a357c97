"""Numbers of keys that an INSERT does not name: never twice, whichever processes share the store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
import sqlalchemy as sa
from nyala.testing import MiniCluster

ROWS = 40
METADATA = sa.MetaData()
USERS = sa.Table("users", METADATA, sa.Column("id", sa.Integer, primary_key=True), sa.Column("process", sa.Integer))

INSERTER = f"""
import sys, sqlalchemy as sa
engine = sa.create_engine(sys.argv[1])
columns = sa.Column("id", sa.Integer, primary_key=True), sa.Column("process", sa.Integer)
users = sa.Table("users", sa.MetaData(), *columns)
with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
    for _ in range({ROWS} // 4):
        connection.execute(users.insert(), {{"process": int(sys.argv[2])}})
        connection.execute(users.insert(), [{{"process": int(sys.argv[2])}}] * 2)
        connection.execute(users.insert().values([{{"process": int(sys.argv[2])}}]))
engine.dispose()
"""


def insert_from_processes(url: str, processes: int = 2) -> None:
    """Insert ROWS rows from each of `processes` at the same time; fails where one of them fails."""
    running = [subprocess.Popen([sys.executable, "-c", INSERTER, url, str(n)]) for n in range(processes)]
    assert [process.wait(120) for process in running] == [0] * processes


@pytest.fixture(params=["served", pytest.param("cluster", marks=pytest.mark.slow)])
def shared(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a store that several processes use: a directory that this process serves, or a cluster."""
    if request.param == "cluster":
        with MiniCluster(tservers=1) as cluster:
            yield cluster.url
    else:
        with nyala.connect(str(tmp_path / "store"), durability="os") as owner:
            yield owner.serve()


@pytest.mark.slow
def test_processes_never_get_the_same_number(shared: str) -> None:
    engine = sa.create_engine(shared)
    METADATA.create_all(engine)
    insert_from_processes(shared)
    with engine.connect() as connection:
        count, numbers = connection.execute(sa.select(sa.func.count(), sa.func.count(USERS.c.id.distinct()))).one()
        assert (count, numbers) == (2 * ROWS, 2 * ROWS)
        assert sa.inspect(connection).get_table_names() == ["users"]
    engine.dispose()


def test_a_counter_is_raised_to_keys_that_are_there(tmp_path: Path) -> None:
    url = f"nyala:///{tmp_path}/store"
    for first in (1, 101):
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        METADATA.create_all(engine)
        with engine.connect() as connection:
            assert connection.execute(USERS.insert(), {"process": 0}).inserted_primary_key == (first,)
            connection.execute(USERS.insert(), {"id": 100, "process": 0} if first == 1 else {"id": 5, "process": 0})
        engine.dispose()


def test_numbers_of_one_process_have_no_gaps(engine: sa.Engine) -> None:
    METADATA.create_all(engine)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for _ in range(70):
            connection.execute(USERS.insert(), {"process": 0})
        connection.execute(USERS.insert(), [{"process": 1}] * 1000)
        assert list(connection.scalars(sa.select(USERS.c.id).order_by(USERS.c.id))) == list(range(1, 1071))


def test_a_table_that_is_made_anew_is_numbered_from_one(engine: sa.Engine) -> None:
    for _ in range(2):
        METADATA.create_all(engine)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            assert connection.execute(USERS.insert(), {"process": 0}).inserted_primary_key == (1,)
        METADATA.drop_all(engine)
