"""Backup chains: any moment that they cover is restored exactly, and what fails leaves nothing that counts."""

import datetime
import decimal
import random
import shutil

import nyala
import pytest
from nyala.backup import backup as backups
from nyala.backup import manifest
from nyala.backup import restore as restores
from nyala.backup.backup import backup, verify
from nyala.backup.places import Place
from nyala.backup.restore import restore
from nyala.errors import (
    CorruptionError,
    DataError,
    DuplicateTable,
    HistoryGone,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from nyala.model.types import DATE
from nyala.testing import MiniCluster

TABLES = """
CREATE TABLE a (k INT, g STRING, v DECIMAL(30,4), b BINARY, d DOUBLE, o BOOLEAN, t TIMESTAMP, y DATE, s SMALLINT,
    PRIMARY KEY (k, g)) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS;
CREATE TABLE n (k INT, v VARCHAR(10), NON UNIQUE PRIMARY KEY (k));
CREATE TABLE p (k INT PRIMARY KEY, v FLOAT) DISTRIBUTE BY RANGE (k) (PARTITION VALUES < 10, PARTITION 10 <= VALUES)
"""


@pytest.fixture(params=["directory", pytest.param("cluster", marks=pytest.mark.slow)])
def target(request, tmp_path):
    """A store that other processes reach, and a connection to it."""
    if request.param == "directory":
        with nyala.connect(tmp_path / "store") as connection:
            yield tmp_path / "store", connection
    else:
        with MiniCluster(tservers=1) as cluster, nyala.connect(cluster.url) as connection:
            yield cluster.url, connection


@pytest.fixture
def store(tmp_path):
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
        yield tmp_path / "store", connection


class Workload:
    """Random statements on the tables of a connection."""

    def __init__(self, connection, seed):
        self.connection = connection
        self.rng = random.Random(seed)

    def step(self):
        rng, execute = self.rng, self.connection.execute
        k, choice = rng.randrange(20), rng.random()
        if choice < 0.4:
            row = {
                "k": k,
                "g": rng.choice(["", "x", "y\0z"]),
                "v": decimal.Decimal(rng.randrange(-(10**20), 10**20)).scaleb(-4),
                "b": rng.choice([None, b"", bytes([k, 0, 255])]),
                "d": rng.choice([None, rng.random(), float("nan"), float("-inf")]),
                "o": rng.choice([True, False, None]),
                "t": datetime.datetime(1, 1, 1) + datetime.timedelta(microseconds=rng.randrange(10**15)),
                "y": rng.choice([None, datetime.date(9999, 12, 31)]),
            }
            there = {column.name: column.type for column in self.connection.table("a").columns}
            if there.get("y") != DATE:
                del row["y"]
            self.connection.table("a").upsert(row)
        elif choice < 0.5:
            execute("DELETE FROM a WHERE k = ?", (k,))
        elif choice < 0.6:
            execute("UPDATE a SET v = v + 1, s = 3 WHERE k < ?", (k,))
        elif choice < 0.75:
            execute("INSERT INTO n VALUES (?, ?)", (k, str(k)))
        elif choice < 0.8:
            execute("DELETE FROM n WHERE k = ?", (k,))
        else:
            execute("UPSERT INTO p VALUES (?, ?)", (k, k / 3))

    def alter(self, number):
        """Changes definitions between two backups."""
        statements = (
            "ALTER TABLE a ADD COLUMN w INT NOT NULL DEFAULT 7, DROP COLUMN y; ALTER TABLE n RENAME COLUMN v TO vv",
            "CREATE TABLE z (k INT PRIMARY KEY); INSERT INTO z VALUES (1), (2); DELETE FROM z WHERE k = 1;"
            "ALTER TABLE p DROP RANGE PARTITION 10 <= VALUES; ALTER TABLE p ADD RANGE PARTITION 10 <= VALUES;"
            "ALTER TABLE a ADD COLUMN y INT; CREATE VIEW few AS SELECT k FROM a WHERE k < 5",
            "ALTER TABLE z RENAME TO zz; DROP TABLE n; CREATE TABLE n (k INT PRIMARY KEY, other DATE)",
        )
        for statement in statements[number].split(";"):
            self.connection.execute(statement)


def rows(connection, name):
    table = connection.store.table(name)
    scan = connection.table(name).scan([column.name for column in table.schema.columns])
    return scan.to_arrow().sort_by([(column.name, "ascending") for column in table.schema.key])


def same(left, right):
    """NaN equals NaN here."""
    return left.schema == right.schema and repr(left.to_pylist()) == repr(right.to_pylist())


@pytest.mark.parametrize("seed", [1])
def test_every_moment_of_a_chain_is_restored_as_it_was(target, tmp_path, seed):
    url, connection = target
    for statement in TABLES.split(";"):
        connection.execute(statement)
    workload = Workload(connection, seed)
    moments = []
    for number in range(4):
        for _ in range(12):
            workload.step()
            moments.append(connection.store.now())
            workload.step()
        if number in (1, 2):
            workload.alter(number - 1)
        made = backup(url, tmp_path / "saved").backup
        assert made.kind == ("incremental" if number else "full")
        covered = [m for m in moments if m >= (made.since or made.snapshot)]
        for moment in [made.snapshot, *workload.rng.sample(covered, min(2, len(covered)))]:
            # The past shows today's columns: it is compared while they are those of the backup.
            with connection.at(moment) as past:
                expected = {table.definition.name: rows(past, table.definition.name) for table in made.tables}
            names = {name: f"copy_{name}" for name in expected}
            result = restore(tmp_path / "saved", url, at=moment, tables=sorted(expected), renamed=names)
            assert result.tables == {f"copy_{name}": len(found) for name, found in expected.items()}
            for name, found in expected.items():
                assert same(rows(connection, f"copy_{name}"), found), (name, number, moment)
                connection.execute(f"DROP TABLE copy_{name}")
    # Tables dropped and made anew under the same name are others.
    workload.alter(2)
    last = backup(url, tmp_path / "saved").backup
    with pytest.raises(DataError, match="table n was dropped"):
        restore(tmp_path / "saved", url, at=last.snapshot - 1)
    with nyala.connect(tmp_path / "other") as other:
        result = restore(tmp_path / "saved", tmp_path / "other")
        assert set(result.tables) == {"a", "n", "p", "zz"} and result.views == ("few",)
        assert [t.name for t in other.store.tables()] == ["a", "n", "p", "zz"]
        for name in result.tables:
            assert same(rows(other, name), rows(connection, name))
        assert other.execute("SHOW CREATE TABLE p").fetchall() == connection.execute("SHOW CREATE TABLE p").fetchall()
        assert sorted(other.execute("TABLE few").fetchall()) == sorted(connection.execute("TABLE few").fetchall())


def test_rows_without_a_key_of_their_own_keep_their_numbers_and_new_ones_get_others(store, tmp_path):
    place, connection = store
    connection.execute("CREATE TABLE n (k INT, NON UNIQUE PRIMARY KEY (k))")
    connection.execute("INSERT INTO n VALUES (1), (1), (2)")
    connection.execute("DELETE FROM n WHERE k = 2")
    backup(place, tmp_path / "saved", ["n"])
    restore(tmp_path / "saved", place, renamed={"n": "m"})
    assert same(rows(connection, "m"), rows(connection, "n"))
    connection.execute("INSERT INTO m VALUES (1)")
    assert connection.execute("SELECT count(*) FROM m").fetchone() == (3,)


def test_a_restore_refuses_what_is_there_and_can_be_run_again_where_it_failed(store, tmp_path, monkeypatch):
    place, connection = store
    connection.execute("CREATE TABLE u (k INT PRIMARY KEY); INSERT INTO u VALUES (5)")
    backup(place, tmp_path / "saved")
    names = {"t": "t2", "u": "u2"}
    with pytest.raises(DuplicateTable, match="t, u are there already"):
        restore(tmp_path / "saved", place)

    def fail(*_):
        raise OperationalError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(restores, "restore_tablet", fail)
        with pytest.raises(OperationalError, match="power"):
            restore(tmp_path / "saved", place, renamed=names)
    assert "t2" not in {table.name for table in connection.store.tables()}
    renamed = restores._Work.finish
    calls = []

    def interrupted(self, views):
        names, self._names = self._names, {"t": "t2"}
        renamed(self, views)
        self._names = names
        self.mark_ready()
        calls.append(1)
        fail()

    with monkeypatch.context() as patched:
        patched.setattr(restores._Work, "finish", interrupted)
        with pytest.raises(OperationalError, match="power"):
            restore(tmp_path / "saved", place, renamed=names)
    assert calls
    assert restore(tmp_path / "saved", place, renamed=names).tables == {"t2": 2, "u2": 1}
    assert [table.name for table in connection.store.tables()] == ["t", "t2", "u", "u2"]


def test_a_backup_that_fails_is_none_and_goes_with_the_next(store, tmp_path, monkeypatch):
    place, _ = store
    saved = tmp_path / "saved"
    first = backup(place, saved)

    def torn(task):
        backups_save(task)
        raise KeyboardInterrupt

    backups_save = backups.save
    with monkeypatch.context() as patched:
        patched.setattr(backups, "save", torn)
        patched.setattr(Place, "delete", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            backup(place, saved)
    assert (saved / "000002").exists()
    assert [found.number for found in manifest.read_all(Place.of(saved))] == [1]
    second = backup(place, saved).backup
    assert not (saved / "000002").exists() and second.number == 3 and second.parent == first.backup.id


def test_damage_is_found_before_anything_is_made(store, tmp_path):
    place, connection = store
    saved = tmp_path / "saved"
    backup(place, saved)
    connection.execute("UPDATE t SET v = 3")
    backup(place, saved)
    assert verify(saved)[1] == []
    damaged = next((saved / "000002").rglob("*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    assert "checksum" in verify(saved)[1][0]
    with pytest.raises(CorruptionError, match=damaged.name):
        restore(saved, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    first = manifest.read_all(Place.of(saved))[0]
    assert restore(saved, place, at=first.snapshot, renamed={"t": "old"}).tables == {"old": 2}
    shutil.rmtree(saved / "000001")
    assert "continues one that does not exist" in verify(saved)[1][0]
    with pytest.raises(OperationalError, match="no full backup"):
        restore(saved, place, renamed={"t": "older"})
    with pytest.raises(OperationalError, match="--full"):
        backup(place, saved)
    assert backup(place, saved, full=True).backup.kind == "full"


def test_what_the_store_has_forgotten_asks_for_a_full_backup(tmp_path):
    saved = tmp_path / "saved"
    with nyala.connect(tmp_path / "store", history_seconds=0) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)")
        backup(tmp_path / "store", saved)
        connection.execute("UPDATE t SET v = 2")
        connection.execute("COMPACT TABLE t")
        with pytest.raises(HistoryGone, match="--full"):
            backup(tmp_path / "store", saved)
        assert backup(tmp_path / "store", saved, full=True).backup.number == 2


def test_backups_of_another_store_are_not_gone_on_from(store, tmp_path):
    place, connection = store
    backup(place, tmp_path / "saved", ["t"])
    with nyala.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        with pytest.raises(InterfaceError, match="--full"):
            backup(tmp_path / "other", tmp_path / "saved")
    # Named tables stay those of the chain; one whose changes cannot be read has only full backups.
    connection.execute("CREATE TABLE u (k INT PRIMARY KEY, _change STRING)")
    assert [t.definition.name for t in backup(place, tmp_path / "saved").backup.tables] == ["t"]
    with pytest.raises(ProgrammingError, match="_change"):
        backup(place, tmp_path / "saved", ["t", "u"])


# ---- schemas ---------------------------------------------------------------------------------------------------------

SCHEMAS = """
CREATE SCHEMA staging; CREATE SCHEMA "Odd.one"; CREATE SCHEMA empty;
CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1);
CREATE TABLE staging.t (k INT PRIMARY KEY); INSERT INTO staging.t VALUES (2), (3);
CREATE TABLE "Odd.one"."T" (k INT PRIMARY KEY); INSERT INTO "Odd.one"."T" VALUES (4);
CREATE VIEW staging.w AS SELECT a.k + b.k AS s FROM t AS a, staging.t AS b
"""


def values(connection, query):
    return sorted(value for (value,) in connection.execute(query).fetchall())


def schemas(connection):
    return [namespace.name for namespace in connection.store.namespaces()]


def test_schemas_come_back_with_their_tables_and_views_by_increments_too(target, tmp_path):
    url, connection = target
    for statement in SCHEMAS.split(";"):
        connection.execute(statement)
    first = backup(url, tmp_path / "saved").backup
    for statement in (
        "DROP VIEW staging.w",
        "INSERT INTO staging.t VALUES (10)",
        "CREATE SCHEMA late",
        "ALTER TABLE t SET SCHEMA late",
        "CREATE TABLE late.u (k INT PRIMARY KEY)",
        "INSERT INTO late.u VALUES (5)",
        "DROP SCHEMA empty",
    ):
        connection.execute(statement)
    assert backup(url, tmp_path / "saved").backup.kind == "incremental"
    with nyala.connect(tmp_path / "before") as other:
        result = restore(tmp_path / "saved", tmp_path / "before", at=first.snapshot)
        assert result.tables == {'"Odd.one".T': 1, "staging.t": 2, "t": 1} and result.views == ("staging.w",)
        assert schemas(other) == ["Odd.one", "empty", "public", "staging"]
        assert values(other, "SELECT s FROM staging.w") == [3, 4]
        assert values(other, 'SELECT k FROM "Odd.one"."T"') == [4]
    with nyala.connect(tmp_path / "after") as other:
        other.execute("CREATE SCHEMA staging; CREATE TABLE staging.own (k INT PRIMARY KEY)")
        restore(tmp_path / "saved", tmp_path / "after")
        assert schemas(other) == ["Odd.one", "late", "public", "staging"]
        assert values(other, "SELECT k FROM staging.t") == [2, 3, 10]
        assert values(other, "SELECT k FROM late.t UNION ALL SELECT k FROM late.u") == [1, 5]
        shown = other.execute("SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2").fetchall()
        assert shown == [("Odd.one", "T"), ("late", "t"), ("late", "u"), ("staging", "own"), ("staging", "t")]


def test_a_table_is_restored_into_its_own_schema_or_a_named_one(tmp_path):
    with nyala.connect(tmp_path / "store") as connection:
        for statement in SCHEMAS.split(";"):
            connection.execute(statement)
        backup(tmp_path / "store", tmp_path / "saved", ["staging.t", "t"])

        def restored(**names):
            return restore(tmp_path / "saved", tmp_path / "store", tables=sorted(names["renamed"]), **names).tables

        assert restored(renamed={"staging.t": "before"}) == {"staging.before": 2}
        assert restored(renamed={"staging.t": "main.moved", "t": "new.t"}) == {"moved": 2, "new.t": 1}
        assert restored(renamed={"t": '"a.b"'}) == {"a.b": 1}
        assert "new" in schemas(connection)
        query = "SELECT table_schema FROM information_schema.tables WHERE table_name = ?"
        for name, schema in (("before", "staging"), ("moved", "public"), ("a.b", "public")):
            assert connection.execute(query, (name,)).fetchall() == [(schema,)], name
        with pytest.raises(DuplicateTable, match=r"staging\.before is there already"):
            restored(renamed={"staging.t": "before"})
        with pytest.raises(InterfaceError, match=r"two tables would be called staging\.t"):
            restored(renamed={"t": "staging.t", "staging.t": "t"})
        with pytest.raises(InterfaceError, match="not restored into temporary tables"):
            restored(renamed={"t": "pg_temp.t"})
        with pytest.raises(ProgrammingError, match="a schema cannot be called pg_x"):
            restored(renamed={"t": "pg_x.t"})


def test_users_of_a_backup_own_no_schema_of_another_store(tmp_path):
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE USER ann PASSWORD 'secret'; CREATE SCHEMA hers AUTHORIZATION ann")
        backup(tmp_path / "store", tmp_path / "saved")
    with nyala.connect(tmp_path / "other") as other:
        other.execute("CREATE USER ann PASSWORD 'other'")
        restore(tmp_path / "saved", tmp_path / "other")
        assert {namespace.name: namespace.owner for namespace in other.store.namespaces()}["hers"] == ""
