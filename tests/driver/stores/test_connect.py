"""Targets, options, sharing within the process, locking between processes."""

import subprocess
import sys

import nyala
import pytest
from nyala.errors import StoreLocked

HOLD = """
import sys, nyala
connection = nyala.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_what_was_written_is_there_again(tmp_path):
    with nyala.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'one')")
    with nyala.connect(str(tmp_path / "db")) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1, "one")]


def test_stores_in_memory_are_apart():
    with nyala.connect() as one, nyala.connect(":memory:") as other:
        one.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        with pytest.raises(nyala.ProgrammingError):
            other.execute("SELECT * FROM t")


def test_connections_of_one_process_share_a_directory(tmp_path):
    one, other = nyala.connect(tmp_path), nyala.connect(tmp_path / ".." / tmp_path.name)
    assert one.store is other.store
    one.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    one.close()
    other.execute("INSERT INTO t VALUES (1)")
    other.close()
    with nyala.connect(tmp_path) as again:
        assert again.execute("SELECT k FROM t").fetchall() == [(1,)]


def test_sharing_needs_equal_options(tmp_path):
    message = r"open in this process with durability='os'.*default options"
    with nyala.connect(tmp_path, durability="os"), pytest.raises(nyala.InterfaceError, match=message):
        nyala.connect(tmp_path)


def test_a_second_process_is_refused_and_told_why(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked) as error:
            nyala.connect(tmp_path)
        assert str(holder.pid) in str(error.value)
        assert error.value.retryable
    finally:
        holder.communicate("", timeout=90)
    nyala.connect(tmp_path).close()


@pytest.mark.parametrize(
    ("target", "options", "error", "message"),
    [
        ("nyala://localhost:1", {"connect_deadline": 0.2}, nyala.OperationalError, "localhost:1 cannot be reached"),
        ("nyala://one", {"durability": "os"}, nyala.InterfaceError, "durability is an option of a directory"),
        ("nyala://one", {"read_mode": "READ_LATES"}, nyala.InterfaceError, "did you mean READ_LATEST"),
        ("nyala://one", {"deadline": 0}, nyala.InterfaceError, "deadline=0: a number of seconds above 0"),
        (":memory:", {"deadline": 1.0}, nyala.InterfaceError, "deadline is an option of a cluster (nyala://)"),
        ("nyala://", {}, nyala.InterfaceError, "'' is not a server; write nyala://host:port,host:port/"),
        ("nyala://one,,two", {}, nyala.InterfaceError, "'' is not a server"),
        ("nyala://one:port", {}, nyala.InterfaceError, "'one:port' is not a server"),
        ("nyala://one:70000", {}, nyala.InterfaceError, "70000 is not a port"),
        ("nyala://one/table", {}, nyala.InterfaceError, "nothing may follow the servers, but '/table' does"),
        ("nyala://@one/", {}, nyala.InterfaceError, "a user's name is missing before the @"),
        ("postgresql://host/db", {}, nyala.InterfaceError, "postgresql:// is not a target"),
        (":memory:", {"thread": 2}, nyala.InterfaceError, "no option thread; did you mean threads?"),
        (":memory:", {"threads": 0}, nyala.InterfaceError, "threads=0: a whole number of at least 1"),
        (":memory:", {"threads": "2"}, nyala.InterfaceError, "threads='2'"),
        (":memory:", {"durability": "none"}, nyala.InterfaceError, "there are 'fsync' and 'os'"),
        (":memory:", {"memory_limit": "lots"}, nyala.InterfaceError, "memory_limit is a number of bytes"),
        (":memory:", {"store_memory": "-1"}, nyala.InterfaceError, "store_memory='-1'"),
        (":memory:", {"history_seconds": 1.5}, nyala.InterfaceError, "history_seconds=1.5"),
    ],
)
def test_wrong_targets_and_options(target, options, error, message):
    with pytest.raises(error) as raised:
        nyala.connect(target, **options)
    assert message in str(raised.value)


def test_options_of_none_are_defaults(tmp_path):
    with nyala.connect(tmp_path, threads=None, durability=None, memory_limit=None) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_connections_and_cursors_say_what_they_are(tmp_path):
    connection = nyala.connect(tmp_path / "db")
    assert repr(connection) == f"<nyala.Connection to '{tmp_path}/db'>"
    cursor = connection.cursor()
    assert repr(cursor) == "<nyala.Cursor without a result, rowcount -1>"
    cursor.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'one')")
    assert repr(cursor) == "<nyala.Cursor without a result, rowcount 1>"
    cursor.execute("SELECT k, v FROM t")
    assert repr(cursor) == "<nyala.Cursor of (k INT, v STRING); .df(), .arrow() and .fetchall() give its rows>"
    assert cursor.fetchall() == [(1, "one")]
    with connection.at("2026-01-01") as past:
        assert repr(past) == f"<nyala.Connection to '{tmp_path}/db' as of 2026-01-01 00:00:00.000000 UTC>"
    cursor.close()
    connection.close()
    assert (repr(cursor), repr(connection)) == ("<nyala.Cursor, closed>", "<nyala.Connection, closed>")
