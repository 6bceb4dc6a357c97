"""A PostgreSQL server beside us: made in a directory of its own, started, and ended with the benchmark.

    with PostgresServer(home, "fsync") as server:
        connection = connect(server.dsn)

The server's programs are those of the machine (Debian: `apt-get install postgresql`). It listens on a free port of
127.0.0.1 only, without a Unix socket, so that it disturbs no other server; its one user has a password made for this
run, as others on the machine reach loopback too.

**Durability.** "fsync" is PostgreSQL's default: `fsync = on`, `synchronous_commit = on`. "os" is `fsync = off` with
`synchronous_commit = on`: a commit writes its log to the operating system and does not wait for the disk, so it
survives the end of all server processes. (`synchronous_commit = off` would not do: up to three `wal_writer_delay` of
commits would be in shared memory only.) `full_page_writes` goes off with it, as the documentation advises: it guards
against crashes of the system, which "os" does not promise to survive.

**Settings.** What PostgreSQL's documentation tells everybody to set for their machine (`SETTINGS`), and room for the
clients; the rest, autovacuum and JIT among it, is as it comes.

**As root.** PostgreSQL refuses to run as root, so its programs run as the user `postgres`, or `nobody`. That user must
reach the data directory. Where it cannot reach `home` (temporary directories are often their owner's alone), the
directory lies beside, in the same file system where there is one, while the server runs; `home/data` is then a symbolic
link, and `stop` moves the files home.

**Its end.** `stop` ends the server in good order. A harness that is killed takes its server along: a guard beside the
server waits for the end of a pipe that the harness holds, and then stops the server and removes a data directory that
is not in `home`.
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
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ..cluster.admin.ports import free_ports
from ..errors import OperationalError

if TYPE_CHECKING:
    import psycopg

Durability: TypeAlias = Literal["fsync", "os"]

MISSING: Final = "there is no PostgreSQL server on this machine; try: apt-get install postgresql"
START_SECONDS: Final = 60.0
"""For the server to take connections."""
STOP_SECONDS: Final = 120.0
"""For the server to write what it holds and to end."""
_USER: Final = "nyala"
_INSTALLED: Final = Path("/usr/lib/postgresql")
"""Where Debian keeps the servers of all versions: VERSION/bin, not in the PATH."""
_BUFFERS_AT_MOST: Final = 2 << 30
_POLL_SECONDS: Final = 0.02
_LOG_TAIL: Final = 12
_ATTEMPTS: Final = 3

# The arguments: `pg_ctl`, the data directory, and a directory to remove then, or "".
_GUARD: Final = 'read -r _; "$0" stop --pgdata "$1" --mode fast; [ -z "$2" ] || rm -rf "$2"'


def binaries() -> Path:
    """The directory of the programs `initdb`, `postgres` and `pg_ctl`: of the PATH, of `pg_config`, or Debian's newest.

    `OperationalError` where there is no server.
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
    """Whether this machine has a server."""
    try:
        binaries()
    except OperationalError:
        return False
    return True


def connect(dsn: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection by psycopg 3 (`options` are its own); `OperationalError` where psycopg is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise OperationalError("psycopg is not installed; try: pip install 'nyala[bench]'") from error
    return psycopg.connect(dsn, **options)


@dataclass(frozen=True, slots=True)
class _Account:
    """Whom the server's programs run as."""

    uid: int
    gid: int

    def options(self) -> dict[str, Any]:
        """For `subprocess`."""
        if os.geteuid() == self.uid:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def reaches(self, directory: Path) -> bool:
        """Whether it may use what it owns in a directory: all directories on the way let it through."""
        if os.geteuid() == self.uid:
            return True
        return all(path.stat().st_mode & 0o001 for path in (directory, *directory.parents))


def _account() -> _Account:
    if os.geteuid() != 0:
        return _Account(os.geteuid(), os.getegid())
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return _Account(found.pw_uid, found.pw_gid)
    raise OperationalError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def _memory() -> int:
    """Of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _megabytes(size: int) -> str:
    return f"{size >> 20}MB"


SETTINGS: Final[Mapping[str, str]] = {
    "shared_buffers": _megabytes(min(_memory() // 4, _BUFFERS_AT_MOST)),
    "effective_cache_size": _megabytes(_memory() // 2),
    "maintenance_work_mem": "256MB",
    "work_mem": "64MB",
    "random_page_cost": "1.1",  # no disk with heads
    "max_wal_size": "8GB",  # no checkpoint but those of the clock
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
        Its directory, made where it is missing: `data` and `log` come into it.
    durability : {"fsync", "os"}
        When a commit returns: the disk has it, or the operating system.
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
        """For `connect`, in this process or another, while the server runs."""
        return (
            f"host=127.0.0.1 port={self._port} user={_USER} password={self._password} dbname=postgres"
            " connect_timeout=30 sslmode=disable gssencmode=disable"
        )

    @staticmethod
    def version() -> str:
        """As "PostgreSQL 15.18"."""
        said = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True)
        return f"PostgreSQL {said.stdout.partition(')')[2].split()[0]}"

    @property
    def log(self) -> Path:
        """What the server and its programs write."""
        return self._home / "log"

    def start(self) -> None:
        """Start the server, with the data of before where it has run; returns when it takes connections.

        `OperationalError` where there is no server, or where it does not start.
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
        """End the server and its connections, the data written; nothing happens where it does not run."""
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

    # ---- where the data are ----------------------------------------------------------------------------------------

    def _place(self, account: _Account) -> None:
        """Make the data directory, or take it to where the account reaches it."""
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
        """Make the database's files. Texts sort as their bytes do, as in all stores beside it."""
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
        # Sessions of their own: Ctrl-C at the terminal ends the harness, and the harness the server.
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
        """Wait until the server says that it is; False where it has ended, which may be another port's chance."""
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
        """By the server's own file: the first line is its process's id, the eighth its state."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        assert self._process is not None
        return len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL:])


def _end(process: subprocess.Popen[bytes]) -> None:
    """By a fast or an immediate shutdown, or by force: SIGINT, SIGQUIT, SIGKILL, whichever ends it."""
    for number, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
        process.send_signal(number)
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue


def _beside(home: Path, account: _Account) -> Path:
    """A directory that the account reaches: for temporary files if that is on the disk of `home`, else above `home`."""
    temporary = Path(tempfile.gettempdir()).resolve()
    if temporary.stat().st_dev == home.stat().st_dev and account.reaches(temporary):
        return temporary
    return next(parent for parent in home.parents if account.reaches(parent))
