"""A PostgreSQL server for benchmarks: created in its own directory, started, and stopped with the benchmark.

    with PostgresServer(home, "fsync") as server:
        connection = connect(server.dsn)

The server's programs are those of the machine (Debian: `apt-get install postgresql`). It listens on a free port of
127.0.0.1 only, without a Unix socket, so that it does not affect other servers. Its one user has a password created for
this run, because other users of the machine can reach loopback too.

**Durability.** "fsync" is PostgreSQL's default: `fsync = on`, `synchronous_commit = on`. "os" is `fsync = off` with
`synchronous_commit = on`: a commit writes its log to the operating system without waiting for the disk, so it survives
the end of all server processes. (`synchronous_commit = off` is not equivalent: up to three `wal_writer_delay` of
commits would be in shared memory only.) `full_page_writes` is off with it, as the documentation advises: it protects
against crashes of the system, which "os" does not promise to survive.

**Settings.** Those that PostgreSQL's documentation advises to set for a machine (`SETTINGS`), and a connection limit
for the clients; the rest, including autovacuum and JIT, has its defaults.

**As root.** PostgreSQL refuses to run as root, so its programs run as the user `postgres`, or `nobody`. That user must
have access to the data directory. Temporary directories are often private: if it has no access to `home`, the directory
lies elsewhere while the server runs, on the same file system if possible. `home/data` is then a symbolic link, and
`stop` moves the files to `home`.

**Shutdown.** `stop` shuts the server down cleanly. If the harness is killed, a guard process stops the server: it waits
for the end of a pipe that the harness holds, stops the server and removes a data directory outside `home`.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ..cluster.admin.ports import free_ports
from ..errors import OperationalError
from ..model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import psycopg

Durability: TypeAlias = Literal["fsync", "os"]

MISSING: Final = "there is no PostgreSQL server on this machine; try: apt-get install postgresql"
START_SECONDS: Final = 60.0
"""Seconds for the server to accept connections."""
STOP_SECONDS: Final = 120.0
"""Seconds for the server to write its data and to end."""
_USER: Final = "nyala"
_INSTALLED: Final = Path("/usr/lib/postgresql")
"""Debian's directory of the servers of all versions: VERSION/bin, not in the PATH."""
_BUFFERS_AT_MOST: Final = 2 << 30
_POLL_SECONDS: Final = 0.02
_LOG_TAIL: Final = 12
_ATTEMPTS: Final = 3

# The arguments: `pg_ctl`, the data directory, and a directory to remove then, or "".
_GUARD: Final = 'read -r _; "$0" stop --pgdata "$1" --mode fast; [ -z "$2" ] || rm -rf "$2"'


def binaries() -> Path:
    """The directory of the programs `initdb`, `postgres` and `pg_ctl`: of the PATH, of `pg_config`, or Debian's newest.

    Raises `OperationalError` if there is no server.
    """
    in_path = shutil.which("initdb")
    candidates = [Path(in_path).resolve().parent] if in_path else []
    if pg_config := shutil.which("pg_config"):
        said = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        candidates.append(Path(said.stdout.strip()))
    versions = [path for path in _INSTALLED.glob("*/bin") if path.parent.name.isdigit()]
    candidates += sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    for candidate in candidates:
        if all(os.access(candidate / program, os.X_OK) for program in ("initdb", "postgres", "pg_ctl")):
            return candidate
    raise OperationalError(MISSING)


def is_installed() -> bool:
    """True if this machine has a server."""
    try:
        binaries()
    except OperationalError:
        return False
    return True


def connect(dsn: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection by psycopg 3 (`options` are its own); raises `OperationalError` if psycopg is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise OperationalError("psycopg is not installed; try: pip install 'nyala[bench]'") from error
    return psycopg.connect(dsn, **options)


@dataclass(frozen=True, slots=True)
class _Account:
    """The user account of the server's programs."""

    uid: int
    gid: int

    def options(self) -> dict[str, Any]:
        """Arguments for `subprocess`."""
        if os.geteuid() == self.uid:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def reaches(self, directory: Path) -> bool:
        """True if it can use its files in a directory: all parent directories allow access."""
        if os.geteuid() == self.uid:
            return True
        return all(path.stat().st_mode & 0o001 for path in (directory, *directory.parents))


def _account() -> _Account:
    if os.geteuid() != 0:
        return _Account(os.geteuid(), os.getegid())
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return _Account(account.pw_uid, account.pw_gid)
    raise OperationalError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def _memory() -> int:
    """The memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _megabytes(size: int) -> str:
    return f"{size >> 20}MB"


SETTINGS: Final[Mapping[str, str]] = {
    "shared_buffers": _megabytes(min(_memory() // 4, _BUFFERS_AT_MOST)),
    "effective_cache_size": _megabytes(_memory() // 2),
    "maintenance_work_mem": "256MB",
    "work_mem": "64MB",
    "random_page_cost": "1.1",  # not a rotating disk
    "max_wal_size": "8GB",  # only timed checkpoints
    "max_connections": "200",
}
"""Set for this machine, as the documentation advises (Resource Consumption, Planner Cost Constants, WAL)."""

_DURABILITY: Final[Mapping[Durability, Mapping[str, str]]] = {
    "fsync": {"fsync": "on", "synchronous_commit": "on"},
    "os": {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"},
}


class PostgresServer:
    """A server with an empty database; a context manager that starts and stops it.

    Parameters
    ----------
    home : Path
        Its directory, created if necessary, for `data` and `log`.
    durability : {"fsync", "os"}
        A commit returns when the disk, or the operating system, has it.
    settings : mapping of str to str, optional
        Configuration parameters, on top of `SETTINGS`.
    """

    def __init__(self, home: Path, durability: Durability = "fsync", settings: Mapping[str, str] | None = None) -> None:
        self._home = home.absolute()
        self._settings = {**SETTINGS, **_DURABILITY[durability], **(settings or {})}
        self._password = secrets.token_hex(16)
        self._data = self._home / "data"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """The connection string for `connect`, in this process or another, while the server runs."""
        return (
            f"host=127.0.0.1 port={self._port} user={_USER} password={self._password} dbname=postgres"
            " connect_timeout=30 sslmode=disable gssencmode=disable"
        )

    @property
    def process_id(self) -> int:
        """Of the process that all others of the server descend from, while it runs."""
        assert self._process is not None
        return self._process.pid

    @staticmethod
    def version() -> str:
        """The version, such as "PostgreSQL 15.18"."""
        said = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True)
        return f"PostgreSQL {said.stdout.partition(')')[2].split()[0]}"

    @property
    def log(self) -> Path:
        """The log of the server and its programs."""
        return self._home / "log"

    def start(self) -> None:
        """Starts the server, with its existing data if it has run before; returns when it accepts connections.

        Raises `OperationalError` if there is no server, or if it does not start.
        """
        programs, account = binaries(), _account()
        self._home.mkdir(parents=True, exist_ok=True)
        try:
            self._place(account)
            if not (self._data / "PG_VERSION").exists():
                self._create(programs, account)
            for attempt in range(_ATTEMPTS):
                (self._port,) = free_ports(1)
                self._launch(programs, account)
                if self._becomes_ready(is_last=attempt == _ATTEMPTS - 1):
                    return
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the server and its connections, with the data written; does nothing if it is not running."""
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        try:
            if process is not None:
                _end(process)
        finally:
            if guard is not None:
                guard.kill()
                guard.communicate()
        self._bring_home()

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # ---- data directory --------------------------------------------------------------------------------------------

    def _place(self, account: _Account) -> None:
        """Creates the data directory, or moves it to a place that the account can access."""
        link = self._home / "data"
        if account.reaches(self._home.resolve()):
            self._data = link
            link.mkdir(mode=0o700, exist_ok=True)
        else:
            beside = Path(tempfile.mkdtemp(prefix="nyala-postgres-", dir=_beside(self._home.resolve(), account)))
            os.chown(beside, account.uid, account.gid)
            self._data = beside / "data"
            if link.is_dir():
                shutil.move(link, self._data)
            else:
                self._data.mkdir(mode=0o700)
            link.symlink_to(self._data)
        os.chown(self._data, account.uid, account.gid)

    def _bring_home(self) -> None:
        link = self._home / "data"
        if link.is_symlink() and link.readlink() == self._data:
            link.unlink()
            shutil.move(self._data, link)
            self._data.parent.rmdir()
            self._data = link

    def _create(self, programs: Path, account: _Account) -> None:
        """Creates the database's files. Texts sort by their bytes, as in all other stores."""
        # `initdb` reads a file that its user can read.
        descriptor, password = tempfile.mkstemp(prefix="password-", dir=self._data.parent)
        try:
            os.write(descriptor, self._password.encode())
            os.fchown(descriptor, account.uid, account.gid)
            os.close(descriptor)
            files = (f"--pgdata={self._data}", f"--username={_USER}", f"--pwfile={password}")
            options = ("--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--no-sync", "--no-instructions")
            self._run([programs / "initdb", *files, *options], account)
        finally:
            Path(password).unlink()

    def _run(self, command: Sequence[str | Path], account: _Account) -> None:
        with self.log.open("ab") as log:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", check=False, **account.options()
            )
        if done.returncode:
            raise OperationalError(f"{Path(command[0]).name} failed; its log {self.log} ends:\n{self._tail()}")

    # ---- the process -----------------------------------------------------------------------------------------------

    def _launch(self, programs: Path, account: _Account) -> None:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **self._settings}
        command = [str(programs / "postgres"), "-D", str(self._data), "-p", str(self._port)]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        # In separate sessions: Ctrl-C at the terminal ends the harness, and the harness stops the server.
        common: dict[str, Any] = {"cwd": "/", "start_new_session": True, **account.options()}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **common)
        if self._guard is None:
            beside = "" if self._data.parent == self._home else str(self._data.parent)
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, str(programs / "pg_ctl"), str(self._data), beside],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **common,
            )

    def _becomes_ready(self, is_last: bool) -> bool:
        """Waits until the server is ready; returns False if it has ended, in which case another port may work."""
        assert self._process is not None
        end = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None:
                if is_last:
                    raise OperationalError(f"PostgreSQL ended as it started; its log {self.log} ends:\n{self._tail()}")
                return False
            if time.monotonic() > end:
                raise OperationalError(f"PostgreSQL does not answer after {START_SECONDS:g} s; see {self.log}")
            time.sleep(_POLL_SECONDS)
        return True

    def _is_ready(self) -> bool:
        """True if the server is ready by its own file: the first line is its process id, the eighth its state."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        assert self._process is not None
        return len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL:])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process by a fast or an immediate shutdown, or by force: SIGINT, SIGQUIT, SIGKILL, in this order."""
    for number, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
        process.send_signal(number)
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue


def _beside(home: Path, account: _Account) -> Path:
    """A directory that the account can access: for temporary files if that is on the disk of `home`, else above
    `home`."""
    temporary = Path(tempfile.gettempdir()).resolve()
    if temporary.stat().st_dev == home.stat().st_dev and account.reaches(temporary):
        return temporary
    return next(parent for parent in home.parents if account.reaches(parent))
