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
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from .. import errors
from ..errors import InterfaceError
from ..executor.run.memory import default_limit
from ..executor.run.progress import Handler
from ..model.abandoned import close_when_dropped
from ..model.clock import format_timestamp
from ..model.forks import is_inherited, stay_with_process
from ..model.observed_time import checked_token, observe
from ..model.store import Store, Timestamp
from ..model.transactions import Isolation
from ..sql.bound import SetSetting
from ..sql.settings import read_option
from .checked_options import SESSION_OPTIONS, STORE_OPTIONS, check_target, checked_options, store_options, whole_target
from .connect_options import ConnectOptions
from .cursor import Cursor
from .doors import Door, opened_one
from .session.bind_values import Parameters
from .session.identity import act_as_own_user, insertable
from .session.session import Session
from .stores.open_stores import SharedStore, acquire, is_cluster, lent
from .tables.timestamps import Moment, hybrid_time
from .transaction_blocks import RETRIES, TransactionBlock, flush_buffered, retried

if TYPE_CHECKING:
    from .stores.bulk_loads import Source
    from .tables.table_handle import TableHandle
    from .tables.write_session import WriteSession

T = TypeVar("T")


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
        Seconds for which history stays readable; stored, as the default of later openings. A week for a new store.
    maintenance_io_limit : int or str, optional
        Bytes per second, such as "50MB", that flushes, compactions and the like may read and write (no limit).
    store_memory : int or str, optional
        Memory for rows that are not on disk yet and for cached pages, of all stores of this process together; half of
        the machine's by default.
    autocommit : bool, optional
        True (the default): each statement outside of a transaction is durable when it returns. False: the first
        statement begins a transaction, which `commit` or `rollback` ends (PEP 249).
    isolation_level : {"SNAPSHOT", "SERIALIZABLE"} or another name of the SQL standard, optional
        Isolation level of transactions that name none; SNAPSHOT by default.
    observed : int, optional
        A token of a connection in another process, as for `Connection.observe`.
    deadline : float, optional
        Of a cluster: seconds that a statement may wait for servers that fail or do not respond, over all of its
        requests (30).
    read_mode : {"READ_YOUR_WRITES", "READ_LATEST", "READ_AT_SNAPSHOT"}, optional
        Of a cluster: snapshot of a statement. READ_YOUR_WRITES (the default): one snapshot for all its tables, above
        everything that this process has written or read. READ_LATEST: the latest committed state of each tablet's
        leader, without waiting and without a common snapshot. READ_AT_SNAPSHOT: a given timestamp (`Connection.at`);
        otherwise as READ_YOUR_WRITES.
    replica_selection : {"auto", "leader", "closest", "any"}, optional
        Of a cluster: replica that scans are sent to first. "auto": the leader for the last seconds, else the closest.
    location : str, optional
        Of a cluster: this process's place, such as "/dc1/rack2"; the closest replica shares most of it.
    commit_wait : bool, optional
        Of a cluster: a write returns only when its timestamp has passed by this machine's clock.
    speculative_reads : {"off", "snapshots", "recent"}, optional
        Of a cluster: look-ups by key that are also sent to a second replica if the first does not reply soon. "off"
        (the default): none. "snapshots": those as of a timestamp. "recent": those of the latest row, too, which may
        then be the row of some seconds ago.
    connect_deadline : float, optional
        Of a cluster: seconds within which a master must respond (10).
    tls_ca, tls_cert, tls_key : str or Path, optional
        Of a cluster with TLS: PEM files with its CA's certificate, this client's own, and the key of that. All three or
        none; by default the URL's (`nyala://host/?tls_ca=...&tls_cert=...&tls_key=...`), else those that the
        environment names: NYALA_TLS_CA, NYALA_TLS_CERT, NYALA_TLS_KEY.
    user, password : str, optional
        Of a cluster with users: by default the URL's (`nyala://ann:secret@host/`), else NYALA_USER, NYALA_PASSWORD.

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
    LoginNeeded, InvalidPassword
        The servers have users, and none was named; or name or password are wrong.
    """
    settings = checked_options(dict(options))
    check_target(target)
    of_store = store_options(target, settings)
    shared = acquire(target, settings.get("threads") or os.cpu_count() or 1, **of_store)
    try:
        given = {"memory_limit": default_limit(), **{n: settings[n] for n in SESSION_OPTIONS if n in settings}}
        known = None if is_cluster(target) else {name: settings.get(name) for name in STORE_OPTIONS}
        if known is not None and shared.history_seconds is not None:
            known["history_seconds"] = shared.history_seconds
        if "isolation_level" in settings:
            known = {**(known or {}), "default_transaction_isolation": settings["isolation_level"]}
        session = Session(shared.store, **given, store_options=known, target=whole_target(target, of_store))
        act_as_own_user(session)
        session.reads_latest = settings.get("read_mode") == "READ_LATEST"
        session.transactions.autocommit = settings.get("autocommit", True)
        if "observed" in settings:
            observe(shared.store, settings["observed"])
    except BaseException:
        shared.release()
        raise
    return Connection(shared, session)


def connect_to(store: Store, name: str) -> Connection:
    """A connection to a store that the caller has opened, and closes after it; `name` is its directory.

    Its settings are the defaults of `connect`.
    """
    session = Session(store, threads=os.cpu_count() or 1, memory_limit=default_limit(), target=name)
    return Connection(lent(store, name), session)


class Connection:
    """A session with a store (PEP 249). Threads may share it; each uses cursors of its own.

    Leaving it as a context manager commits an open transaction, or rolls it back after an exception, and closes the
    connection. The exception classes are attributes, as PEP 249 suggests.
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
        session.transactions.before_end = partial(flush_buffered, self._write_sessions)
        self._closed = False
        self._doors: list[Door] = []
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
        """True (the default of `connect`): a statement outside of a transaction is durable when it returns. False: the
        first statement begins a transaction, which `commit` or `rollback` ends, as PEP 249 has it.

        Setting it to True commits an open transaction, as Python's sqlite3 does; to False has no effect on one.
        """
        return self._session.transactions.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.check_open()
        if not isinstance(value, bool):
            raise InterfaceError(f"autocommit={value!r}: True or False is needed")
        self._session.transactions.autocommit = value

    @property
    def isolation_level(self) -> str:
        """Isolation level of later transactions that name none: SNAPSHOT or SERIALIZABLE, or another name of the SQL
        standard, which is SNAPSHOT in effect. It can be set; `SET default_transaction_isolation` does the same."""
        level: Isolation | None = self._session.settings.get("default_transaction_isolation")
        return (level or Isolation.SNAPSHOT).value

    @isolation_level.setter
    def isolation_level(self, value: str | None) -> None:
        self.check_open()
        level = Isolation.SNAPSHOT if value is None else read_option("default_transaction_isolation", value)
        self._session.settings.run(SetSetting("default_transaction_isolation", level))

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open. Without autocommit, the first statement opens one."""
        return self._session.transactions.is_open

    @property
    def transactional_ddl(self) -> bool:
        """True if CREATE, ALTER and DROP can be part of a transaction: in memory, and in a directory that this process
        has open. False: of a cluster, and of a directory that another process serves."""
        return self._session.transactions.store.transactional_ddl

    @property
    def last_timestamp(self) -> Timestamp | None:
        """Hybrid timestamp of this connection's latest write; None before the first. A read as of it shows them all."""
        return self._session.last_write

    @property
    def session(self) -> Session:
        """The session that runs this connection's statements; `InterfaceError` after `close`."""
        self.check_open()
        return self._session

    @property
    def store(self) -> Store:
        """The store itself: catalog, statistics, scans; or the open transaction. `InterfaceError` after `close`."""
        self.check_open()
        session = self._session
        return session.transaction_store() if session.is_transactional else session.store

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
        from .stores.bulk_loads import load

        self.check_open()
        self._session.refuse_writes("a load")
        with self._session.turn(), self._session.cancellable(cancel) as cancel:
            store = self._session.store
            rows = load(store, insertable(self._session, table), source, progress, self._session.progress, cancel)
        if rows:
            self._session.note_write()
        return rows

    def table(self, name: str) -> TableHandle:
        """A table without SQL: rows in, scans, scan tokens and changes out; `UnknownTable` where there is none.

        `name` is that of a table in a schema of the search path, or `schema.name`; letters count as they are.

        >>> connection = connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        >>> written = connection.table("t").insert([{"k": 1, "v": "one"}, (2, "two")])
        >>> connection.table("t").scan(["v"], ("k", ">", 1)).to_arrow().to_pylist()
        [{'v': 'two'}]
        >>> connection.close()
        """
        from .tables.table_handle import TableHandle  # many connections run statements only

        self.check_open()
        return TableHandle(self, self._session.find_table(name))

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
        from .tables.write_session import WriteSession

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

    def duplicate(self) -> Connection:
        """Returns a new connection to the same store, with the current settings of this one and transactions of its
        own: for another thread, or a second transaction in memory. Closing one of the two leaves the other open.

        >>> connection = connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)")
        >>> with connection.duplicate() as other:
        ...     other.execute("SELECT count(*) FROM t").fetchall()
        [(0,)]
        >>> connection.rollback()
        >>> connection.close()
        """
        self.check_open()
        return Connection(self._shared.share(), self._session.duplicate())

    def serve(
        self, postgres: str | None = None, flight_sql: str | None = None, http: str | None = None, **options: Any
    ) -> str:
        """Let other processes reach this connection's store; the URL by which they do, as
        `nyala.connect("nyala://127.0.0.1:...")`.

        Parameters
        ----------
        postgres : str, optional
            "host:port" at which clients of PostgreSQL are served instead, until this connection is closed; port 0 takes
            any free one. The URL is that for them.
        flight_sql : str, optional
            The same for clients of Arrow Flight SQL. For several protocols, call it for each.
        http : str, optional
            The same for browsers and Prometheus: pages, /metrics and probes.
        options
            Of the protocol: `password`, `tls_cert`, `tls_key`; `connections` (not of Flight SQL), `sessions` (of it);
            `audit`, a `doors.audit.AuditLog`.

        Notes
        -----
        The store of a directory, or in memory, is served by this process from now on, until the last connection to it
        is closed; connections of this process go on using it directly. Other processes that connect to the directory
        itself are led here. A cluster's URL is the cluster's. Only this machine can reach it, without authentication.
        """
        self.check_open()
        door = opened_one(self, {"postgres": postgres, "flight_sql": flight_sql, "http": http}, options)
        if door is None:
            return self._shared.serve()
        self._doors.append(door)
        return door.url

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

    def now(self) -> Timestamp:
        """The store's current hybrid timestamp: a read as of it shows all writes that were acknowledged before the call
        to connections of this process, and all that these have read.

        Of a directory or a store in memory, these are all of its writes. Of a cluster or a served directory, other
        processes may write at later timestamps: as a token for their `observe`, and theirs for ours, it carries over
        what has been written and read.
        """
        self.check_open()
        return self._session.transactions.store.now()

    def observe(self, token: int) -> None:
        """Have every later statement, of all connections of this process to the store, read at or above a hybrid
        timestamp: `now()` or `last_timestamp` of a connection in another process. It then shows what that one had
        written and read by then. An open transaction keeps its snapshot.

        Raises
        ------
        InterfaceError
            It is no hybrid timestamp.
        ClockTooFarAhead, DataError
            It is in the future, or of another store.

        >>> with connect(":memory:") as connection:
        ...     connection.observe(connection.now())
        """
        self.check_open()
        observe(self._session.transactions.store, checked_token(token))

    # ---- transactions ------------------------------------------------------------------------------------------------

    def begin(self, isolation_level: str | None = None, read_only: bool = False) -> None:
        """Begin a transaction, which reads the state of this moment and its own writes until `commit` or `rollback`.

        Parameters
        ----------
        isolation_level : {"SNAPSHOT", "SERIALIZABLE"} or another name of the SQL standard, optional
            By default `isolation_level`.
        read_only : bool
            Refuse writes.

        Raises
        ------
        ActiveTransaction
            A transaction is open.
        """
        self.check_open()
        level = None if isolation_level is None else read_option("transaction_isolation", isolation_level)
        self._session.transactions.begin(level, read_only or None)

    def commit(self) -> None:
        """Make what the open transaction has written durable and visible, all of it at one timestamp; buffered rows of
        write sessions are part of it. No effect without a transaction.

        Raises
        ------
        SerializationFailure
            Another transaction has changed a row that this one has written, or relied on. This one is rolled back.
        """
        self.check_open()
        self._session.transactions.commit()

    def rollback(self) -> None:
        """Undo what the open transaction has written, and end it.

        No effect without a transaction; a `NotRolledBackWarning` says so if rows were written since the latest commit
        or rollback: with autocommit, they were durable when their statement returned.
        """
        self.check_open()
        self._session.transactions.rollback()

    def transaction(self, isolation_level: str | None = None, read_only: bool = False) -> TransactionBlock[Connection]:
        """Context manager for a transaction: commits at its end, rolls back if an exception leaves it. In an open
        transaction it is a savepoint. The parameters are those of `begin`.

        >>> connection = connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        >>> with connection.transaction():
        ...     cursor = connection.execute("INSERT INTO t VALUES (1)")
        >>> connection.close()
        """
        self.check_open()
        return TransactionBlock(self, isolation_level, read_only)

    def run(
        self,
        function: Callable[[Connection], T],
        retries: int = RETRIES,
        isolation_level: str | None = None,
        read_only: bool = False,
    ) -> T:
        """Call `function` in a transaction, again after conflicts with other transactions; its result, after COMMIT.

        Parameters
        ----------
        function : callable
            Gets this connection. It may be called several times, so its effects should be in the transaction alone.
        retries : int
            Limit of further calls. Before each, the thread sleeps for a random time, up to a limit that doubles: 1 ms
            at first, 1 s at most.
        isolation_level, read_only
            Those of `begin`.

        Raises
        ------
        SerializationFailure
            There was a conflict each time.
        ActiveTransaction
            A transaction is open: only a whole transaction can be retried.

        >>> connection = connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1)")
        >>> connection.run(lambda c: c.execute("UPDATE t SET n = n + 1 WHERE k = 1").rowcount)
        1
        >>> connection.close()
        """
        self.check_open()
        return retried(self, function, retries, isolation_level, read_only)

    def check_open(self) -> None:
        """Raise `InterfaceError` after `close`."""
        if self._closed:
            raise InterfaceError("the connection is closed")

    def close(self) -> None:
        """Cancel running statements, roll an open transaction back, and release the store. May be repeated."""
        if self._closed:
            return
        while self._doors:
            self._doors.pop().close()
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

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if not self._closed and not is_inherited(self) and self.in_transaction:
                if kind is None:
                    self.commit()
                else:
                    self.rollback()
        finally:
            self.close()


def _give_up(shared: SharedStore, session: Session) -> None:
    try:
        session.close()
    finally:
        shared.release()
