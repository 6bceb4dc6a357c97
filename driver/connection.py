"""PEP 249's connect and Connection.

>>> connection = connect(":memory:")
>>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
>>> cursor = connection.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
>>> connection.execute("SELECT v FROM t WHERE k = ?", [2]).fetchall()
[('two',)]
>>> connection.close()
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

from .. import errors
from ..errors import InterfaceError, NotRolledBackWarning, NotSupportedError
from ..executor.run.memory import default_limit
from ..executor.run.progress import Handler
from ..model.abandoned import close_when_dropped
from ..model.clock import format_timestamp
from ..model.forks import stay_with_process
from ..model.store import Store, Timestamp
from ..sql.settings import parse_bytes, read_option
from .connect_options import ConnectOptions
from .cursor import Cursor
from .session import engines
from .session.bind_values import Parameters
from .session.session import Session
from .stores.bulk_loads import Source, load
from .stores.cluster_url import TLS_OPTIONS, tls_options, with_parameters
from .stores.open_stores import SharedStore, acquire, is_cluster
from .tables.table_handle import TableHandle
from .tables.timestamps import Moment, hybrid_time
from .tables.write_session import WriteSession

_STORE_OPTIONS: Final = ("durability", "history_seconds", "store_memory")
"""Options of a directory; for a cluster they are options of its servers."""
_CLUSTER_OPTIONS: Final = (
    "deadline",
    "read_mode",
    "replica_selection",
    "commit_wait",
    "connect_deadline",
    *TLS_OPTIONS,
)
_DATABASE_NAMES: Final = {"store_memory": "memory_limit_bytes"}
"""Options that `storage.database.Database` calls otherwise."""
_SESSION_OPTIONS: Final = ("threads", "memory_limit", "temp_directory", "engine")
DURABILITIES: Final = ("fsync", "os")


def connect(target: str | Path = ":memory:", **options: Unpack[ConnectOptions]) -> Connection:
    """Open a store.

    Parameters
    ----------
    target : str or Path
        A directory (created if it does not exist), ":memory:" for a store that ends with its connection, or a cluster
        by its masters, `nyala://host:port,host:port/`.
    threads : int, optional
        Number of threads that one statement may use; by default one per processor.
    memory_limit : int or str, optional
        Memory for the state of one statement: bytes, a text such as "2GB", or "none"; by default 60 % of the machine's.
        Larger state is written to temporary files.
    temp_directory : str, optional
        Folder of these files; by default the store's. They have no names, and are deleted with the process.
    durability : {"fsync", "os"}, optional
        "fsync" (the default): an acknowledged write survives a power failure. "os": it survives the end of the process;
        the operating system decides when it reaches the disk.
    engine : {"nyala", "spark"}, optional
        Engine of queries: nyala's own executor (the default), or Spark, which reads the tablets, in a session that
        exists in this process or is started (`SET engine` changes it).
    history_seconds : int, optional
        Seconds for which history stays readable; older history may be removed. The value is stored and is the default
        of later openings; 604,800 (seven days) for a new store.
    store_memory : int or str, optional
        Memory for rows that are not on disk yet and for cached pages, of all stores of this process together; half of
        the machine's by default. Writers wait for flushes before it is reached.
    deadline : float, optional
        Of a cluster: seconds that a statement may wait for servers that fail or do not respond, over all of its
        requests (30).
    read_mode : {"READ_YOUR_WRITES", "READ_LATEST", "READ_AT_SNAPSHOT"}, optional
        Of a cluster: snapshot of a statement. READ_YOUR_WRITES (the default): one snapshot for all its tables, above
        everything that this process has written or read. READ_LATEST: the latest committed state of each tablet's
        leader, without waiting and without a common snapshot. READ_AT_SNAPSHOT: a given timestamp (`Connection.at`);
        otherwise as READ_YOUR_WRITES.
    replica_selection : {"auto", "leader", "closest", "any"}, optional
        Of a cluster: replica that scans are sent to first. "auto": the leader for the last seconds, the closest for the
        past.
    commit_wait : bool, optional
        Of a cluster: a write returns only when its timestamp has passed by this machine's clock.
    connect_deadline : float, optional
        Of a cluster: seconds within which a master must respond (10).
    tls_ca, tls_cert, tls_key : str or Path, optional
        Of a cluster with TLS: PEM files with its CA's certificate, this client's own, and the key of that. All three or
        none; by default the URL's (`nyala://host/?tls_ca=...&tls_cert=...&tls_key=...`), else those that the
        environment names: NYALA_TLS_CA, NYALA_TLS_CERT, NYALA_TLS_KEY.

    Raises
    ------
    StoreLocked
        Another process has the directory open, and does not serve it (`serve`); the message names it.
    InterfaceError
        An option is unknown, invalid, or not valid for this target; the URL is wrong.
    DeadlineExceeded
        No master of the cluster has responded.
    AuthenticationFailed
        The cluster's servers and this client do not trust each other, or only one side speaks TLS.
    """
    settings = _check_options(dict(options))
    _check_target(target)
    of_store = _store_options(target, settings)
    shared = acquire(target, settings.get("threads") or os.cpu_count() or 1, **of_store)
    try:
        given = {"memory_limit": default_limit(), **{n: settings[n] for n in _SESSION_OPTIONS if n in settings}}
        known = None if is_cluster(target) else {name: settings.get(name) for name in _STORE_OPTIONS}
        if known is not None and shared.history_seconds is not None:
            known["history_seconds"] = shared.history_seconds
        session = Session(shared.store, **given, store_options=known, target=_whole_target(target, of_store))
        session.reads_latest = settings.get("read_mode") == "READ_LATEST"
    except BaseException:
        shared.release()
        raise
    return Connection(shared, session)


class Connection:
    """A session with a store (PEP 249). Threads may share it; each uses cursors of its own.

    Leaving it as a context manager closes it. The exception classes are attributes, as PEP 249 suggests.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, shared: SharedStore, session: Session):
        self._shared = shared
        self._session = session
        self._write_sessions: weakref.WeakSet[WriteSession] = weakref.WeakSet()
        self._closed = False
        self._finalizer = close_when_dropped(self, shared.name, partial(_give_up, shared, session))
        stay_with_process(self)

    def __repr__(self) -> str:
        if self._closed:
            return "<nyala.Connection, closed>"
        moment = self._session.moment
        when = "" if moment is None else f" as of {format_timestamp(moment)}"
        return f"<nyala.Connection to {str(self._session.target)!r}{when}>"

    @property
    def autocommit(self) -> bool:
        """True: every statement is durable when it returns. Setting it to False is a `NotSupportedError`."""
        return True

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if not value:
            raise NotSupportedError("every statement is durable when it returns: autocommit cannot be turned off")

    @property
    def last_timestamp(self) -> Timestamp | None:
        """Hybrid timestamp of this connection's latest write; None before the first. A read `at` it, or FOR SYSTEM_TIME
        AS OF it, shows all its writes. Statements that change nothing leave it unchanged."""
        return self._session.last_write

    @property
    def session(self) -> Session:
        """The session that runs this connection's statements; `InterfaceError` after `close`."""
        self.check_open()
        return self._session

    @property
    def store(self) -> Store:
        """The store itself: catalog, statistics, scans; `InterfaceError` after `close`."""
        self.check_open()
        return self._shared.store

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.check_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """`cursor().execute(...)`."""
        return self.cursor().execute(operation, parameters)

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """`cursor().executemany(...)`."""
        return self.cursor().executemany(operation, seq_of_parameters)

    def load(
        self,
        table: str,
        source: Source,
        progress: Callable[[int], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> int:
        """Bulk-load rows into a table, all or none; how many there were.

        Parameters
        ----------
        table : str
        source : path, pa.Table, pa.RecordBatch, object with `__arrow_c_stream__`, or iterable of these
            A path names a Parquet or CSV file, or a directory of them. Columns are matched by name; those that the
            source lacks take their defaults.
        progress : callable, optional
            Called with the number of rows read so far.
        cancel : threading.Event, optional
            Ends this load, and nothing else, once it is set; `cancel()` ends it, too.

        Raises
        ------
        UnknownTable, UnknownColumn, DataError
            The source does not fit.
        AlreadyPresent
            A primary key occurs twice, or is in the table already; nothing is loaded.
        Cancelled
            It was cancelled; nothing is loaded.
        """
        store = self.store
        self._session.refuse_writes("a load")
        with self._session.cancellable(cancel) as cancel:
            rows = load(store, store.table(table), source, progress, self._session.progress, cancel)
        if rows:
            self._session.note_write()
        return rows

    def table(self, name: str) -> TableHandle:
        """A table without SQL: rows in, scans, scan tokens and changes out; `UnknownTable` where there is none.

        >>> connection = connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        >>> written = connection.table("t").insert([{"k": 1, "v": "one"}, (2, "two")])
        >>> connection.table("t").scan(["v"], ("k", ">", 1)).to_arrow().to_pylist()
        [{'v': 'two'}]
        >>> connection.close()
        """
        return TableHandle(self, self.store.table(name))

    def new_session(self, flush_mode: str = "AUTO_FLUSH_SYNC", **options: Any) -> WriteSession:
        """Returns a session that buffers rows of any tables and writes them in batches.

        Parameters
        ----------
        flush_mode : {"AUTO_FLUSH_SYNC", "AUTO_FLUSH_BACKGROUND", "MANUAL_FLUSH"}
        buffer_bytes : int
            Size limit of a buffer of the session; 7 MiB by default.
        flush_interval : float
            Seconds after which rows are written in the background; 1 by default.
        max_errors : int
            Limit of errors kept for `WriteSession.pending_errors`; 1,000 by default.
        """
        session = WriteSession(self, flush_mode, **options)
        self._write_sessions.add(session)
        return session

    def at(self, moment: Moment) -> Connection:
        """Returns a new connection to the same store that reads every table as of a timestamp, and refuses writes.

        Parameters
        ----------
        moment : int, datetime, date or str
            A value for FOR SYSTEM_TIME AS OF: a hybrid timestamp (`last_timestamp`, the column `_changed_at`), which is
            exact; or a point in time, which means the end of its microsecond.

        Notes
        -----
        FOR SYSTEM_TIME in a statement takes precedence, for its table. Tables, columns and `now()` are current. The new
        connection begins with the current settings of this one. Closing one of the two leaves the other open.
        Statements that write raise `NotSupportedError`; reading removed history raises `HistoryGone`; a timestamp in
        the future raises `DataError`.

        >>> connection = connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        >>> with connection.at(connection.last_timestamp) as before:
        ...     cursor = connection.execute("DELETE FROM t")
        ...     before.execute("SELECT k FROM t").fetchall()
        [(1,)]
        >>> connection.close()
        """
        store = self.store
        session = self._session.as_of(hybrid_time(moment, store.now()))
        return Connection(self._shared.share(), session)

    def serve(self) -> str:
        """Let other processes reach this connection's store; the URL by which they do, as
        `nyala.connect("nyala://127.0.0.1:...")`.

        The store of a directory, or in memory, is served by this process from now on, until the last connection to it
        is closed; connections of this process go on using it directly. Other processes that connect to the directory
        itself are led here. A cluster's URL is the cluster's. Only this machine can reach it; there is no
        authentication.
        """
        self.check_open()
        return self._shared.serve()

    def set_progress_handler(self, handler: Handler | None) -> None:
        """Call `handler` with the progress of each statement and load of this connection; None: no calls.

        It is called with an `executor.run.progress.Progress` at most every 50 ms, and at the end of each statement, in
        the thread that made the progress, one call at a time. As with sqlite3, a true result cancels the statement. An
        exception from it ends the statement too, which raises it.

        >>> connection = connect(":memory:")
        >>> connection.set_progress_handler(lambda progress: print(progress.parts_done, "of", progress.parts))
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        0 of 0
        >>> connection.close()
        """
        self.check_open()
        self._session.progress = handler

    def cancel(self) -> None:
        """Cancel every statement and load of this connection that runs now, or is being planned; their callers get
        `Cancelled`. From any thread."""
        self._session.cancel()

    def commit(self) -> None:
        """Accept the writes since the last commit; they stay in any case, because every statement is durable when it
        returns."""
        self.check_open()
        self._session.commit()

    def now(self) -> Timestamp:
        """The store's current hybrid timestamp: a read as of it shows all writes that were acknowledged before the
        call, by any connection of the store, and no later ones."""
        self.check_open()
        return self.store.now()

    @property
    def has_uncommitted_rows(self) -> bool:
        """True if rows were written since the last `commit`."""
        return self._session.has_uncommitted_rows

    def rollback(self) -> None:
        """Do nothing if nothing was written since the last `commit`; refuse otherwise.

        Every statement is durable when it returns, so a rollback that reports success would be wrong.

        Raises
        ------
        NotSupportedError
            If something was written since the last `commit`. While an exception is handled, as in `except:
            connection.rollback(); raise`, it is a `NotRolledBackWarning` instead, so that the first error is the one
            that the caller sees.
        """
        self.check_open()
        if not self._session.is_uncommitted:
            return
        message = (
            "what was written since the last commit() stays: every statement is durable when it returns "
            "(autocommit), so it cannot be rolled back; commit() says that this is known"
        )
        if sys.exception() is None:
            raise NotSupportedError(message)
        warnings.warn(message, NotRolledBackWarning, stacklevel=2)

    def check_open(self) -> None:
        """Raise `InterfaceError` after `close`."""
        if self._closed:
            raise InterfaceError("the connection is closed")

    def close(self) -> None:
        """Cancel running statements and release the store. May be repeated."""
        if self._closed:
            return
        try:
            # What they gathered is written first, through this connection.
            for session in list(self._write_sessions):
                session.close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._finalizer.detach()
        _give_up(self._shared, self._session)

    def __enter__(self) -> Connection:
        self.check_open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _give_up(shared: SharedStore, session: Session) -> None:
    try:
        session.close()
    finally:
        shared.release()


def _whole_target(target: str | Path, options: dict[str, Any]) -> str | Path:
    """The target for other processes that open the store, with the TLS files that were passed as options."""
    return with_parameters(str(target), tls_options(str(target), options)) if is_cluster(target) else target


def _check_target(target: object) -> None:
    """`InterfaceError` for what names no place."""
    choices = 'a directory, ":memory:" or nyala://host:port,host:port'
    if not isinstance(target, (str, os.PathLike)):
        raise InterfaceError(f"connect takes {choices}, not {target!r} of type {type(target).__name__}")
    name = os.fspath(target)
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise InterfaceError(f"{target!r} names no store: connect takes {choices}; the current directory is '.'")


def _store_options(target: str | Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Options to open the store with; `InterfaceError` for an option that is not valid for its kind."""
    wanted: tuple[str, ...] = _STORE_OPTIONS
    others: tuple[str, ...] = _CLUSTER_OPTIONS
    kind, who = "a cluster (nyala://)", "a directory has no servers"
    if is_cluster(target):
        wanted, others = others, wanted
        kind, who = "a directory", f"the servers of {target} set it when they start"
    for name in others:
        if name in settings:
            raise InterfaceError(f"{name} is an option of {kind}: {who}")
    return {_DATABASE_NAMES.get(name, name): settings[name] for name in wanted if name in settings}


def _check_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, checked and in plain units."""
    known = _STORE_OPTIONS + _SESSION_OPTIONS + _CLUSTER_OPTIONS
    for name in options:
        if name not in known:
            raise InterfaceError(f"connect has no option {name}{errors.did_you_mean(name, known, 'there are')}")
    checked = {name: value for name, value in options.items() if value is not None}
    threads = checked.get("threads", 1)
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InterfaceError(f"threads={threads!r}: a whole number of at least 1 is needed")
    durability = checked.get("durability", "fsync")
    if durability not in DURABILITIES:
        raise InterfaceError(f"durability={durability!r}: there are {' and '.join(map(repr, DURABILITIES))}")
    seconds = checked.get("history_seconds", 0)
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
        raise InterfaceError(f"history_seconds={seconds!r}: a whole number of seconds is needed")
    if "store_memory" in checked:
        checked["store_memory"] = parse_bytes(checked["store_memory"], "store_memory")
    for name in ("memory_limit", "temp_directory", "engine"):
        if name in checked:
            checked[name] = read_option(name, checked[name])
    if "engine" in checked:
        _check_engine(checked["engine"])
    return checked


def _check_engine(name: str) -> None:
    try:
        engines.check(name)
    except errors.StatementError as error:
        raise InterfaceError(str(error)) from None
