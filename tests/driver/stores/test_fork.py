"""A forked child and what its parent has open: nothing of it may be used, nothing of it changes."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
import sqlalchemy
from fork_support import Child, in_child, raised_by
from nyala.driver.connection import Connection
from nyala.driver.stores import open_stores as stores
from nyala.driver.stores.served_directory import reachable
from nyala.executor.statements import conflicts
from nyala.storage.database import Database
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.files.spill_file import SpillFile
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.maintenance import memory

pytestmark = pytest.mark.slow

ROWS = 70_000
"""More than a batch, so that cursors stay open."""
REFUSED = r"InterfaceError: this \w+ belongs to process {}, from which process \d+ was forked"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with nyala.connect(path, durability="os") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        connection.execute(f"INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, {ROWS}) AS g(n)")
        connection.execute("COMPACT TABLE t")
    return path


@pytest.fixture(params=["directory", "memory"])
def connection(request: pytest.FixtureRequest, directory: Path) -> Iterator[Connection]:
    target = directory if request.param == "directory" else ":memory:"
    with nyala.connect(target) as made:
        if request.param == "memory":
            made.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
            made.execute(f"INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, {ROWS}) AS g(n)")
        yield made


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def keys(connection: Connection) -> list[int]:
    return [row[0] for row in connection.execute(f"SELECT k FROM t WHERE k > {ROWS} ORDER BY k").fetchall()]


def all_refused(calls: dict[str, Callable[[], Any]], parent: int) -> None:
    told = {name: raised_by(call) for name, call in calls.items()}
    assert {name: text for name, text in told.items() if not re.match(REFUSED.format(parent), text)} == {}
    assert all("Open the store after the fork" in text and "nyala serve" in text for text in told.values())


def test_every_call_of_an_inherited_object_is_refused(connection: Connection) -> None:
    parent = os.getpid()
    cursor = connection.execute("SELECT * FROM t")
    first = cursor.fetchone()
    batches = connection.execute("SELECT * FROM t ORDER BY v").record_batches()
    next(batches)
    one = connection.execute("SELECT v FROM t WHERE k = 1")
    table = connection.table("t")
    scan = table.scan()
    iterated, rows, reader = iter(scan), table.scan().rows(), table.scan().reader()
    next(iterated), next(rows), reader.read_next_batch()
    changes = table.changes(0)
    session = connection.new_session("AUTO_FLUSH_BACKGROUND", flush_interval=3600.0)
    session.insert("t", {"k": ROWS + 1, "v": "gathered"})
    past = connection.at(connection.store.now())
    store = connection.store
    definition = table.definition
    token = table.scan_tokens()[0]
    loader = store.bulk_loader(definition)

    calls: dict[str, Callable[[], Any]] = {
        "execute": lambda: connection.execute("SELECT 1"),
        "look-up": lambda: connection.execute("SELECT v FROM t WHERE k = ?", [1]),
        "write": lambda: connection.execute("INSERT INTO t VALUES (-1, 'child')"),
        "executemany": lambda: connection.executemany("INSERT INTO t VALUES (?, ?)", [(-1, "a")]),
        "cursor": lambda: connection.cursor(),
        "load": lambda: connection.load("t", {}),
        "commit": lambda: connection.commit(),
        "rollback": lambda: connection.rollback(),
        "cancel": lambda: connection.cancel(),
        "serve": lambda: connection.serve(),
        "autocommit": lambda: connection.autocommit,
        "enter": lambda: connection.__enter__(),
        "close": lambda: connection.close(),
        "fetchone": lambda: cursor.fetchone(),
        "fetchmany": lambda: cursor.fetchmany(3),
        "fetchall": lambda: cursor.fetchall(),
        "next": lambda: next(cursor),
        "arrow": lambda: cursor.arrow(),
        "cursor's execute": lambda: cursor.execute("SELECT 1"),
        "cursor's cancel": lambda: cursor.cancel(),
        "cursor's close": lambda: cursor.close(),
        "close of a look-up": lambda: one.close(),
        "batches": lambda: next(batches),
        "get": lambda: table.get(1),
        "insert": lambda: table.insert({"k": -1, "v": "a"}),
        "scan of a table": lambda: table.scan(),
        "name": lambda: table.name,
        "scan": lambda: scan.to_arrow(),
        "count": lambda: scan.count(),
        "iteration": lambda: next(iterated),
        "rows": lambda: list(rows),
        "reader": lambda: reader.read_next_batch(),
        "changes": lambda: changes.to_arrow(),
        "scan's close": lambda: scan.close(),
        "flush": lambda: session.flush(),
        "session's insert": lambda: session.insert("t", {"k": -2, "v": "a"}),
        "session's close": lambda: session.close(),
        "the past": lambda: past.execute("SELECT 1"),
        "the past's close": lambda: past.close(),
        "store": lambda: store.tables(),
        "store's look-up": lambda: store.read_row(definition, (1,), ["v"]),
        "store's close": lambda: store.close(),
        "token": lambda: token.open(connection),
        "loader": lambda: loader.finish(),
    }
    in_child(lambda: all_refused(calls, parent))
    # Nothing of it has reached the parent.
    assert first == (1, "v1") and len(cursor.fetchall()) == ROWS - 1
    assert one.fetchone() == ("v1",) and sum(batch.num_rows for batch in batches) < ROWS
    session.close()
    assert keys(connection) == [ROWS + 1]
    past.close()


def test_leaving_a_block_in_the_child_does_not_hide_what_ends_it(directory: Path) -> None:
    def leave() -> str:
        try:
            with connection, connection.cursor(), connection.table("t").scan():
                raise KeyError("the child's own")
        except KeyError as error:
            return str(error)

    connection = nyala.connect(directory)
    cursor_block = connection.cursor()

    def inherited() -> str:
        try:
            with_cursor.__exit__(None, None, None)
            return "quiet"
        except nyala.InterfaceError as error:
            return str(error)

    with_cursor = cursor_block.__enter__()
    assert in_child(inherited) == "quiet"
    with connection:
        child = Child(lambda: connection.__exit__(None, None, None))
        assert child.result() is None
        assert keys(connection) == []


def test_a_childs_end_changes_no_file(directory: Path, tmp_path: Path) -> None:
    connection = nyala.connect(directory, durability="os", memory_limit="8MB", temp_directory=str(tmp_path))
    connection.execute(f"INSERT INTO t SELECT n + {ROWS}, 'new' FROM generate_series(1, 1000) AS g(n)")
    kept: list[Any] = [connection.execute("SELECT a.v FROM t a JOIN t b ON a.v = b.v AND a.k = b.k ORDER BY a.v")]
    kept[0].fetchone()
    kept.append(connection.table("t").scan())
    kept.append(iter(kept[1]))
    next(kept[2])
    before = files(directory)

    def dropped() -> None:
        kept.clear()
        gc.collect()

    in_child(dropped, exits=True)
    in_child(lambda: None, exits=True)
    assert files(directory) == before
    assert len(kept[0].fetchall()) == ROWS + 999
    connection.close()
    assert check_store(OsFileSystem(), str(directory)).errors == []


def test_a_child_cannot_open_what_its_parent_has_open(directory: Path) -> None:
    def attempt() -> str:
        return raised_by(lambda: nyala.connect(directory))

    with nyala.connect(directory) as connection:
        told = in_child(attempt)
        assert told.startswith("StoreLocked") and f"process {os.getpid()}, from which this one was forked" in told
        grandchild = in_child(lambda: in_child(attempt))
        assert grandchild.startswith("StoreLocked")
        connection.execute(f"INSERT INTO t VALUES ({ROWS + 1}, 'still open')")
    with nyala.connect(directory) as connection:
        assert keys(connection) == [ROWS + 1]


def test_a_child_opens_it_once_the_parent_has_closed_it(directory: Path) -> None:
    reading, writing = os.pipe()
    connection = nyala.connect(directory)

    def wait_and_write() -> list[int]:
        os.read(reading, 1)
        with nyala.connect(directory) as own:
            own.execute(f"INSERT INTO t VALUES ({ROWS + 2}, 'child')")
            return keys(own)

    child = Child(wait_and_write)
    connection.execute(f"INSERT INTO t VALUES ({ROWS + 1}, 'parent')")
    connection.close()
    os.write(writing, b".")
    assert child.result() == [ROWS + 1, ROWS + 2]
    os.close(reading), os.close(writing)
    with nyala.connect(directory) as connection:
        assert keys(connection) == [ROWS + 1, ROWS + 2]


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(directory: Path) -> None:
    script = textwrap.dedent(f"""
        import nyala, os, time
        connection = nyala.connect({str(directory)!r})
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(1)
            os.write(writing, b".")
            time.sleep(120)
            os._exit(0)
        os.read(reading, 1)
        print(pid, flush=True)
        os.kill(os.getpid(), 9)
    """)
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=60)
    orphan = int(done.stdout)
    try:
        with nyala.connect(directory) as connection:
            assert keys(connection) == []
    finally:
        os.kill(orphan, 9)


@pytest.mark.parametrize("served", [False, True])
def test_what_closes_at_exit_is_silent_in_a_child(directory: Path, served: bool) -> None:
    """Registered by the parent: the store's own method, and a function of the user's around it."""
    script = textwrap.dedent(f"""
        import atexit, nyala, os, sys
        connection = nyala.connect({str(directory)!r})
        store = connection.store
        if {served}:
            print(connection.serve())
        atexit.register(connection.close)
        atexit.register(connection.new_session().close)
        atexit.register(store.close)
        atexit.register(lambda: connection.close())
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            connection.execute("INSERT INTO t VALUES ({ROWS + 5}, 'parent')")
        else:
            try:
                connection.close()
            except nyala.InterfaceError as error:
                print("refused", flush=True)
    """)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and "refused" in done.stdout
    with nyala.connect(directory) as connection:
        assert keys(connection) == [ROWS + 5]


def test_both_write_and_nothing_is_lost(directory: Path) -> None:
    """The parent's rows are all there, the child's are all refused."""
    connection = nyala.connect(directory)

    def write() -> list[str]:
        told = []
        for key in range(ROWS + 1000, ROWS + 1010):
            told.append(raised_by(lambda key=key: connection.execute("INSERT INTO t VALUES (?, 'child')", [key])))
        told.append(raised_by(lambda: connection.execute("COMPACT TABLE t")))
        return told

    child = Child(write, exits=True)
    for key in range(ROWS + 1, ROWS + 51):
        connection.execute("INSERT INTO t VALUES (?, 'parent')", [key])
    assert all(text.startswith("InterfaceError") for text in child.result())
    connection.execute("COMPACT TABLE t")
    connection.close()
    assert check_store(OsFileSystem(), str(directory)).errors == []
    with nyala.connect(directory) as connection:
        assert keys(connection) == list(range(ROWS + 1, ROWS + 51))


def test_a_childs_own_stores_work(directory: Path, tmp_path: Path) -> None:
    """Threads, memory and temporary files are the child's own."""

    def work() -> list[Any]:
        found = []
        for target in (tmp_path / f"own {os.getpid()}", ":memory:"):
            with nyala.connect(target, memory_limit="8MB", threads=2) as own:
                own.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2")
                own.execute(f"INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, {ROWS}) AS g(n)")
                own.execute("COMPACT TABLE t")
                own.execute("UPDATE t SET v = 'x' || v WHERE k <= 10")
                found.append(len(own.execute("SELECT * FROM t a JOIN t b ON a.v = b.v ORDER BY a.v").fetchall()))
                status = own.store.memory_status()
                assert status.stores == status.own
        return found

    with nyala.connect(directory, threads=2) as connection:
        assert connection.execute("SELECT count(*) FROM (SELECT DISTINCT v FROM t) x").fetchone() == (ROWS,)
        assert in_child(work, exits=True) == [ROWS, ROWS]
        assert in_child(lambda: in_child(work), exits=True) == [ROWS, ROWS]


def test_locks_that_other_threads_hold_at_the_fork_do_not_stop_the_child(tmp_path: Path) -> None:
    held, done = threading.Barrier(2), threading.Event()

    def hold() -> None:
        with stores._lock, memory._processwide_lock, conflicts._turns_lock:
            held.wait()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def work() -> int:
        with nyala.connect(tmp_path / "own") as own:
            own.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)")
            return own.execute("UPDATE t SET v = v + 1").rowcount

    try:
        assert in_child(work) == 1
    finally:
        done.set()
        thread.join()


def test_a_busy_parent_may_fork(directory: Path) -> None:
    """Locks of the store are held by its threads at any time; the child needs none of them to refuse."""
    stop = threading.Event()
    with nyala.connect(directory, durability="os") as connection:

        def write() -> None:
            key = ROWS
            while not stop.is_set():
                key += 1
                connection.execute("INSERT INTO t VALUES (?, 'busy')", [key])

        def read() -> None:
            while not stop.is_set():
                connection.execute("SELECT v, count(*) FROM t GROUP BY v ORDER BY v LIMIT 3").fetchall()

        threads = [threading.Thread(target=work) for work in (write, read, read)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                told = in_child(lambda: raised_by(lambda: connection.execute("SELECT 1")), exits=True)
                assert told.startswith("InterfaceError")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert check_store(OsFileSystem(), str(directory)).errors == []


def test_descriptors_are_closed_in_the_child(directory: Path) -> None:
    """Space of files that the parent removes must not stay taken for as long as a child lives."""

    def held() -> list[str]:
        links = list(Path("/proc/self/fd").iterdir())
        names = [str(link.readlink()) for link in links if link.is_symlink()]
        return [name for name in names if str(directory) in name]

    with nyala.connect(directory) as connection:
        connection.execute("SELECT max(v) FROM t").fetchall()
        spilled = SpillFile(str(directory))
        assert held()
        assert in_child(held) == []
        spilled.close()


def test_asyncio_in_the_child_is_refused_and_does_not_wait(directory: Path) -> None:
    async def main() -> list[str]:
        async with nyala.aio.connect(directory) as connection:
            cursor = await connection.execute("SELECT * FROM t")
            await cursor.fetchone()
            calls = [
                lambda: connection.execute("SELECT 1"),
                lambda: cursor.fetchone(),
                lambda: cursor.fetchall(),
                lambda: cursor.close(),
                lambda: connection.close(),
            ]

            def attempt() -> list[str]:
                # A loop of its own: the parent's has a descriptor that both share.
                def told(call: Callable[[], Any]) -> str:
                    async def one() -> Any:
                        return await call()

                    asyncio.events._set_running_loop(None)
                    return raised_by(lambda: asyncio.run(one()))

                return [told(call) for call in calls]

            return in_child(attempt)

    assert all(text.startswith("InterfaceError: this") for text in asyncio.run(main()))


def test_a_served_store_and_its_clients(directory: Path) -> None:
    with nyala.connect(directory) as connection:
        url = connection.serve()
        server = connection._shared.server

        def attempt() -> list[str]:
            calls = [
                lambda: server.close(),
                lambda: server.forget(),
                lambda: connection.close(),
                lambda: nyala.connect(url),
                lambda: nyala.connect(directory),
            ]
            return [raised_by(call) for call in calls]

        told = in_child(attempt, exits=True)
        assert all(text.startswith("InterfaceError") and "forked" in text for text in told), told
        script = f"import nyala; print(nyala.connect({url!r}).execute('SELECT count(*) FROM t').fetchone()[0])"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == str(ROWS), done.stderr


def test_a_client_of_a_served_store(directory: Path) -> None:
    """In a process of its own: which process uses gRPC first is known for its whole life."""
    url = reachable(directory)
    script = textwrap.dedent(f"""
        import gc, nyala, os, sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from fork_support import in_child, raised_by
        client = nyala.connect({url!r})
        cursor = client.execute("SELECT * FROM t")
        cursor.fetchone()
        scan = iter(client.table("t").scan(batch_rows=10))
        next(scan)
        kept = [client, cursor, scan]
        store = client.store
        def attempt():
            calls = [
                lambda: client.execute("SELECT 1"), lambda: cursor.fetchall(), lambda: list(scan),
                lambda: store.tables(), lambda: store.close(), lambda: client.close(), lambda: nyala.connect({url!r}),
            ]
            told = [raised_by(call) for call in calls]
            kept.clear()
            gc.collect()
            return told
        for text in in_child(attempt, exits=True):
            assert text.startswith("InterfaceError") and "forked" in text, text
        print(len(cursor.fetchall()), sum(batch.num_rows for batch in scan))
        client.close()
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [str(ROWS - 1), str(ROWS - 10)], done.stderr


def test_a_low_level_store_writes_nothing_in_the_child(directory: Path) -> None:
    with nyala.connect(directory) as connection:
        connection.execute("UPDATE t SET v = 'changed' WHERE k < 100")
    store = Database(directory, background=False)
    table = store.table("t")
    tablets = store.open_table(table).tablets
    before = files(directory)

    def attempt() -> list[str]:
        from nyala.storage.maintenance.table_compaction import compact_tablets

        return [raised_by(lambda: store.flush()), raised_by(lambda: compact_tablets(tablets, None))]

    assert all(in_child(attempt))
    assert files(directory) == before
    store.close()


# ---- programs that fork ----------------------------------------------------------------------------------------------

_inherited: Connection | None = None
_directory: Path | None = None


def _pool_task(key: int) -> tuple[str, str]:
    assert _inherited is not None
    used = raised_by(lambda: _inherited.execute("INSERT INTO t VALUES (?, 'child')", [key]))
    return used.partition(":")[0], raised_by(lambda: nyala.connect(_directory)).partition(":")[0]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_multiprocessings_pool(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nyala.connect(directory) as connection:
        monkeypatch.setattr(sys.modules[__name__], "_inherited", connection)
        monkeypatch.setattr(sys.modules[__name__], "_directory", directory)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            told = pool.map_async(_pool_task, range(ROWS + 100, ROWS + 120))
            for key in range(ROWS + 1, ROWS + 21):
                connection.execute("INSERT INTO t VALUES (?, 'parent')", [key])
            assert set(told.get(60)) == {("InterfaceError", "StoreLocked")}
            pool.close()
            pool.join()
    assert check_store(OsFileSystem(), str(directory)).errors == []
    with nyala.connect(directory) as connection:
        assert keys(connection) == list(range(ROWS + 1, ROWS + 21))


def test_sqlalchemys_pool(directory: Path) -> None:
    engine = sqlalchemy.create_engine(f"nyala:///{directory}")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT count(*) FROM t")).scalar() == ROWS

    def attempt() -> list[str]:
        def query() -> None:
            with engine.connect() as connection:
                connection.execute(sqlalchemy.text("SELECT 1"))

        told = [raised_by(query)]
        engine.dispose(close=False)
        return [*told, raised_by(query)]

    told = in_child(attempt)
    assert all("forked" in text for text in told), told
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT count(*) FROM t")).scalar() == ROWS
    engine.dispose()


APPLICATION = """
import os
import nyala

store = nyala.connect({directory!r})
master = os.getpid()


def application(environ, respond):
    path = environ["PATH_INFO"]
    try:
        if path == "/connect":
            nyala.connect({directory!r})
        else:
            store.execute("INSERT INTO t VALUES (?, 'worker')", [int(path[1:])])
        text = "done"
    except nyala.Error as error:
        text = f"{{type(error).__name__}} {{error}}"
    respond("200 OK", [("Content-Type", "text/plain")])
    return [f"{{master}} {{os.getpid()}} {{text}}".encode()]


def when_ready(server):
    for key in range({rows} + 1, {rows} + 11):
        store.execute("INSERT INTO t VALUES (?, 'master')", [key])


def on_exit(server):
    store.close()
"""


@pytest.mark.slow
def test_gunicorn_with_preload(directory: Path, tmp_path: Path) -> None:
    """Workers that inherit the application's connection are refused, and lose nothing of what the master writes."""
    (tmp_path / "app.py").write_text(APPLICATION.format(directory=str(directory), rows=ROWS))
    settings = "from app import on_exit, when_ready\npreload_app = True\nworkers = 2\ncontrol_socket_disable = True\n"
    (tmp_path / "settings.py").write_text(settings)
    log = tmp_path / "log"
    command = [sys.executable, "-m", "gunicorn", "-b", "127.0.0.1:0", "-c", "settings.py", "app:application"]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output)
    try:
        url = _listens_at(log, server)
        told = [_body(f"{url}/{ROWS + 100 + n}") for n in range(20)] + [_body(f"{url}/connect") for _ in range(4)]
    finally:
        server.terminate()
        server.wait(60)
    masters, workers, kinds = zip(*(text.split()[:3] for text in told))
    assert len(set(masters)) == 1 and not set(workers) & set(masters)
    assert kinds[:20] == ("InterfaceError",) * 20 and kinds[20:] == ("StoreLocked",) * 4, log.read_text()
    assert check_store(OsFileSystem(), str(directory)).errors == []
    with nyala.connect(directory) as connection:
        assert keys(connection) == list(range(ROWS + 1, ROWS + 11))


def _listens_at(log: Path, server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        for line in log.read_text().splitlines():
            if "Listening at: " in line:
                return line.partition("Listening at: ")[2].split()[0]
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def _body(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return str(response.read().decode())


# ---- any steps, with forks in between --------------------------------------------------------------------------------


def _meddling(connection: Connection, directory: Path, rng: random.Random) -> Callable[[], list[str]]:
    """Actions of a child on a store that its parent has open; the function returns the outcome of each."""
    store, table, session = connection.store, connection.table("t"), connection.new_session()
    actions: list[Callable[[], Any]] = [
        lambda: connection.execute("INSERT INTO t VALUES (?, 'child')", [rng.randrange(10**6, 10**7)]),
        lambda: connection.execute("UPDATE t SET v = 'child'"),
        lambda: connection.execute("DELETE FROM t"),
        lambda: connection.execute("DROP TABLE t"),
        lambda: connection.execute("ALTER TABLE t DROP COLUMN v"),
        lambda: connection.execute("COMPACT TABLE t"),
        lambda: connection.load("t", [(-1, "child")]),
        lambda: table.insert([(-2, "child"), (-3, "child")]),
        lambda: session.insert("t", (-4, "child")),
        lambda: store.flush(),
        lambda: store.tables(),
        lambda: store.close(),
        lambda: connection.close(),
        lambda: nyala.connect(directory),
        lambda: gc.collect() and connection.cursor(),
    ]
    chosen = rng.choices(actions, k=rng.randrange(1, 6))
    return lambda: [raised_by(action) for action in chosen]


@pytest.mark.parametrize("seed", range(3))
def test_children_at_any_moment_change_nothing(directory: Path, seed: int) -> None:
    """Random statements, flushes, alterations and reopenings; children that are forked in between do what they like,
    also while the parent goes on, and end as they like. The rows are those of a dictionary, the files are whole."""
    rng = random.Random(seed)
    connection = nyala.connect(directory)
    connection.execute("DELETE FROM t")
    connection.execute("CREATE TABLE h (k BIGINT PRIMARY KEY, v STRING) PARTITION BY HASH (k) INTO 3 BUCKETS")
    rows: dict[int, str] = {}
    children: list[Child] = []
    told: list[str] = []
    for number in range(40):
        keys = rng.sample(range(50), rng.choice([1, 8, 20]))
        values = ", ".join(f"({key}, 'w{number}')" for key in keys)
        for name in ("t", "h"):
            connection.execute(f"UPSERT INTO {name} VALUES {values}")
        rows.update(dict.fromkeys(keys, f"w{number}"))
        action = rng.random()
        if action < 0.3:
            children.append(Child(_meddling(connection, directory, rng), exits=rng.random() < 0.5))
        elif action < 0.4:
            connection.store.flush()  # type: ignore[attr-defined]
        elif action < 0.5:
            connection.execute(f"ALTER TABLE t ADD COLUMN c{number} INT")
        elif action < 0.6:
            connection.execute("COMPACT TABLE t")
        elif action < 0.7:
            told += [text for child in children for text in child.result()]
            children.clear()
            connection.close()
            assert check_store(OsFileSystem(), str(directory)).errors == []
            connection = nyala.connect(directory)
        for name in ("t", "h"):
            assert dict(connection.execute(f"SELECT k, v FROM {name}").fetchall()) == rows
    told += [text for child in children for text in child.result()]
    assert told and all(text.startswith(("InterfaceError", "StoreLocked")) for text in told)
    connection.close()
    assert check_store(OsFileSystem(), str(directory)).errors == []
    with nyala.connect(directory) as connection:
        for name in ("t", "h"):
            assert dict(connection.execute(f"SELECT k, v FROM {name}").fetchall()) == rows
