"""URLs and options, pools and threads, transactions that are none, and what is refused."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nyala
import pytest
import sqlalchemy as sa
from nyala.driver.sqlalchemy import NotEnforcedWarning, NyalaDialect
from nyala.driver.stores import open_stores
from nyala.errors import SerializationFailure, StoreLocked
from sqlalchemy.engine import make_url


@pytest.mark.parametrize(
    ("url", "target", "options"),
    [
        ("nyala://", ":memory:", {}),
        ("nyala:///:memory:", ":memory:", {}),
        ("nyala:///some/dir", "some/dir", {}),
        ("nyala:////some/dir?threads=2&durability=os", "/some/dir", {"threads": 2, "durability": "os"}),
        ("nyala:///d?memory_limit=1GB&history_seconds=60", "d", {"memory_limit": "1GB", "history_seconds": 60}),
        ("nyala://one:7051/", "nyala://one:7051/", {}),
        ("nyala://one:7051/?host=two:7051&host=three:7051", "nyala://one:7051,two:7051,three:7051/", {}),
    ],
)
def test_urls(url: str, target: str, options: dict[str, object]) -> None:
    assert NyalaDialect().create_connect_args(make_url(url)) == ([target], {**options, "autocommit": False})


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("nyala:///d?threads=many", sa.exc.ArgumentError, "threads=many: a whole number"),
        ("nyala:///d?threads=1&threads=2", sa.exc.ArgumentError, "gives threads twice"),
        ("nyala:///d?thread=1", sa.exc.InterfaceError, "no option thread; did you mean threads"),
        ("nyala://127.0.0.1:1/?connect_deadline=0.2", sa.exc.OperationalError, "127.0.0.1:1 cannot be reached"),
        ("nyala://one:7051/?durability=os", sa.exc.InterfaceError, "durability is an option of a directory"),
    ],
)
def test_urls_that_lead_nowhere(url: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sa.create_engine(url).connect()


def test_memory_is_one_store_for_all_threads(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (k INT PRIMARY KEY)")

    def insert(number: int) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("INSERT INTO t VALUES (:k)"), {"k": number})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(insert, range(40)))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM t")) == 40


def test_engines_are_collected_while_a_store_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector runs in the middle of `connect`, which holds the lock that the engine's store needs to close."""
    lock = threading.Lock()
    monkeypatch.setattr(open_stores, "_lock", lock)
    collected = threading.Event()

    def drop_engine() -> None:
        engine = sa.create_engine("nyala://")
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))
        engine.dispose()

    def collect() -> None:
        drop_engine()  # its objects refer to each other
        with lock:
            gc.collect()
        collected.set()

    threading.Thread(target=collect, daemon=True).start()
    assert collected.wait(30)


def test_threads_share_a_directory_and_never_a_number(store: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.Integer))
    table.create(store)

    def insert(number: int) -> list[int]:
        with store.begin() as connection:
            found = [connection.execute(table.insert(), {"v": number}).inserted_primary_key[0]]
            found += connection.scalars(table.insert().returning(table.c.id), [{"v": number}, {"v": number}]).all()
            return found

    with ThreadPoolExecutor(4) as threads:
        given = [number for found in threads.map(insert, range(20)) for number in found]
    assert sorted(given) == list(range(1, 61))


def test_another_process_is_refused(tmp_path: Path, store: sa.Engine) -> None:
    script = f"import sqlalchemy as sa; sa.create_engine('nyala:///{tmp_path}/store').connect()"
    with store.connect():
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert "sqlalchemy.exc.OperationalError: (nyala.errors.StoreLocked)" in found.stderr
    store.dispose()
    with nyala.connect(tmp_path / "store"):  # the pool released it
        pass


def test_the_drivers_errors_are_sqlalchemys(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (k INT PRIMARY KEY)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        for statement, error in [
            ("INSERT INTO t VALUES (1)", sa.exc.IntegrityError),
            ("SELECT 1 / 0", sa.exc.DataError),
            ("SELECT nothing", sa.exc.ProgrammingError),
            ("CREATE SEQUENCE s", sa.exc.NotSupportedError),
        ]:
            with pytest.raises(error):
                connection.execute(sa.text(statement))
    assert issubclass(StoreLocked, nyala.OperationalError)


@pytest.fixture
def table(engine: sa.Engine) -> sa.Table:
    found = sa.Table("t", sa.MetaData(), sa.Column("k", sa.Integer, primary_key=True), sa.Column("v", sa.Integer))
    found.create(engine)
    return found


def keys(connection: sa.Connection, table: sa.Table) -> list[int]:
    return list(connection.scalars(sa.select(table.c.k).order_by(table.c.k)).all())


def test_transactions(engine: sa.Engine, table: sa.Table) -> None:
    with engine.connect() as connection, engine.connect() as other:
        connection.execute(table.insert(), {"k": 1, "v": 1})
        assert keys(other, table) == []
        connection.rollback()
        assert keys(connection, table) == []
        connection.execute(table.insert(), {"k": 2, "v": 2})
        assert keys(other, table) == []  # the snapshot of the first query
        connection.commit()
        assert keys(other, table) == []
        other.rollback()
        assert keys(other, table) == [2]
        connection.execute(table.delete())  # neither committed nor rolled back
    with engine.connect() as connection:
        assert keys(connection, table) == [2]
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:
        connection.execute(table.insert(), {"k": 3, "v": 3})
        raise ZeroDivisionError
    with engine.begin() as connection:
        assert keys(connection, table) == [2]


def test_savepoints(engine: sa.Engine, table: sa.Table) -> None:
    with engine.begin() as connection:
        connection.execute(table.insert(), {"k": 1, "v": 1})
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(table.insert(), {"k": 2, "v": 2})
            connection.execute(table.insert(), {"k": 1, "v": 2})
        with connection.begin_nested() as nested:
            connection.execute(table.insert(), {"k": 3, "v": 3})
            nested.rollback()
        with connection.begin_nested():
            connection.execute(table.insert(), {"k": 4, "v": 4})
    with engine.connect() as connection:
        assert keys(connection, table) == [1, 4]
        with pytest.raises(sa.exc.NotSupportedError, match="two-phase"):
            engine.connect().begin_twophase()


def test_isolation_levels(engine: sa.Engine, table: sa.Table) -> None:
    with engine.connect() as connection:
        assert connection.default_isolation_level == connection.get_isolation_level() == "SNAPSHOT"
    for level in ("SERIALIZABLE", "READ COMMITTED"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            assert connection.get_isolation_level() == level
            shown = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
            assert shown == level.lower()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, engine.connect() as other:
        connection.execute(table.insert(), {"k": 3, "v": 3})
        assert keys(other, table) == [3]
        connection.rollback()  # without a warning: AUTOCOMMIT says it
        assert connection.get_isolation_level() == "AUTOCOMMIT"
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "SNAPSHOT"
        assert keys(connection, table) == [3]
    with pytest.raises(sa.exc.ArgumentError, match="CHAOS"):
        engine.connect().execution_options(isolation_level="CHAOS")


def test_a_conflict_can_be_retried(engine: sa.Engine, table: sa.Table) -> None:
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    with engine.connect() as connection, engine.connect() as other:
        locked = sa.select(table).where(table.c.k == 1).with_for_update(of=table, nowait=True)
        assert connection.execute(locked).all() == [(1, 1)]
        connection.execute(table.update().where(table.c.k == 2).values(v=0))
        other.execute(table.update().where(table.c.k == 1).values(v=5))
        other.commit()
        with pytest.raises(sa.exc.OperationalError) as caught:
            connection.commit()
        assert isinstance(caught.value.orig, SerializationFailure) and caught.value.orig.retryable
    for options, words in (
        ({"read": True}, "FOR SHARE"),
        ({"key_share": True}, "FOR NO KEY UPDATE"),
        ({"read": True, "key_share": True, "skip_locked": True}, "FOR KEY SHARE SKIP LOCKED"),
    ):
        assert str(sa.select(table).with_for_update(**options).compile(engine)).endswith(words)


def test_ddl_is_part_of_the_transaction_or_commits_what_is_open(engine: sa.Engine, table: sa.Table) -> None:
    with engine.connect() as connection:
        is_transactional = connection.connection.driver_connection.transactional_ddl
        connection.execute(table.insert(), {"k": 1, "v": 1})
        sa.Table("u", sa.MetaData(), sa.Column("k", sa.Integer, primary_key=True)).create(connection)
        assert sa.inspect(connection).has_table("u")
        connection.execute(table.insert(), {"k": 2, "v": 2})
        connection.rollback()
        assert sa.inspect(connection).has_table("u") is not is_transactional
        assert keys(connection, table) == ([] if is_transactional else [1])


def test_tables_are_created_filled_and_dropped_in_one_transaction(engine: sa.Engine, table: sa.Table) -> None:
    metadata = sa.MetaData()
    numbered = sa.Table("numbered", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.Integer))
    keyed = sa.Table("keyed", metadata, sa.Column("k", sa.Integer, primary_key=True))
    for ends in ("rollback", "commit"):
        with engine.connect() as connection:
            if not connection.connection.driver_connection.transactional_ddl:
                pytest.skip("DDL is no part of a transaction on a cluster")
            metadata.create_all(connection)
            connection.execute(numbered.insert(), [{"v": 5}, {"v": 6}])
            connection.execute(keyed.insert(), {"k": 1})
            with connection.begin_nested() as nested:
                keyed.drop(connection)
                table.drop(connection)
                nested.rollback()
            assert sorted(row.v for row in connection.execute(sa.select(numbered))) == [5, 6]
            assert keys(connection, keyed) == [1] and keys(connection, table) == []
            with engine.connect() as other:
                assert not sa.inspect(other).has_table("keyed")
            getattr(connection, ends)()
            assert sa.inspect(connection).has_table("keyed") is (ends == "commit")
    metadata.drop_all(engine)
    with engine.connect() as connection:
        assert not sa.inspect(connection).has_table("numbered")


def test_how_columns_are_stored_is_reflected(engine: sa.Engine) -> None:
    created = (
        "CREATE TABLE t (k INT PRIMARY KEY, v STRING ENCODING DICT COMPRESSION ZSTD BLOCK_SIZE 4096, "
        "w BIGINT ENCODING RLE IMMUTABLE, x DOUBLE) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS"
    )
    show = "SHOW CREATE TABLE t"
    with engine.begin() as connection:
        connection.exec_driver_sql(created)
        before = connection.exec_driver_sql(show).scalar_one()
        table = sa.Table("t", sa.MetaData(), autoload_with=connection)
        table.drop(connection)
        table.create(connection)
        assert connection.exec_driver_sql(show).scalar_one() == before


def test_rules_that_are_not_there_are_told(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    sa.Table("a", metadata, sa.Column("k", sa.Integer, primary_key=True), sa.Column("u", sa.Integer, unique=True))
    sa.Table(
        "b",
        metadata,
        sa.Column("k", sa.Integer, sa.ForeignKey("a.k"), primary_key=True),
        sa.Column("i", sa.Integer, sa.CheckConstraint("i > 0"), index=True),
    )
    with pytest.warns(NotEnforcedWarning) as told:
        metadata.create_all(engine)
    assert [str(warning.message).split(" is not")[0] for warning in told] == [
        "UNIQUE (u) of a", "CHECK (i > 0) of b.i", "FOREIGN KEY (k) of b"
    ]  # fmt: skip
    assert sa.inspect(engine).get_foreign_keys("b") == sa.inspect(engine).get_indexes("b") == []
    computed = sa.Table("c", sa.MetaData(), sa.Column("k", sa.Integer, sa.Computed("1 + 1"), primary_key=True))
    with pytest.raises(sa.exc.CompileError, match="no computed columns"):
        computed.create(engine)
