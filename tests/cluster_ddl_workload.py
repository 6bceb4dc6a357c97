"""Programs that create, alter and drop tables while a test does something to the servers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import nyala
from nyala.cluster.wire.messages.methods import GetCatalog, GetStatus, ReportTablets
from nyala.errors import ClusterError, DuplicateTable, InvalidTableDefinition, OperationalError, UnknownTable
from nyala.testing import MiniCluster

KEPT = 2
"""Tables of a maker that exist at a time, besides the one it is creating."""


@dataclass(eq=False)
class TableMaker:
    """A thread that creates small tables, adds a column to each, drops the older ones, and knows what there is to be.

    A statement that ended with a retryable error is given again: it may have been carried out, and what says so is
    right then, and never at the first attempt.
    """

    url: str
    name: str
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns of those that are to be there."""
    done: int = 0
    """Statements."""
    retried: list[str] = field(default_factory=list)
    """Errors that a client saw."""
    wrong: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[TableMaker]:
        """The thread runs inside; it ends with a whole statement."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(90)
        assert not thread.is_alive(), "a client hangs"
        assert not self.wrong, "\n".join(self.wrong)

    def wait_done(self, cluster: MiniCluster, count: int) -> None:
        """Returns when this number of further statements is done."""
        before = self.done
        cluster.wait_until(lambda: self.done >= before + count or bool(self.wrong), f"{count} statements are done", 90)
        assert not self.wrong, "\n".join(self.wrong)

    def _run(self) -> None:
        try:
            with nyala.connect(self.url) as connection:
                for number in itertools.count(1):
                    self._create_and_alter(connection, f"{self.name}_{number}")
                    if number > KEPT and not self._stop.is_set():
                        self._drop(connection, f"{self.name}_{number - KEPT}")
                    if self._stop.is_set():
                        return
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")

    def _create_and_alter(self, connection: nyala.Connection, name: str) -> None:
        self._execute(
            connection,
            f"CREATE TABLE {name} (id INT PRIMARY KEY) DISTRIBUTE BY HASH (id) INTO 2 BUCKETS",
            DuplicateTable,
        )
        self.tables[name] = ("id",)
        if not self._stop.is_set():
            self._execute(connection, f"ALTER TABLE {name} ADD COLUMN v INT", InvalidTableDefinition)
            self.tables[name] = ("id", "v")

    def _drop(self, connection: nyala.Connection, name: str) -> None:
        self._execute(connection, f"DROP TABLE {name}", UnknownTable)
        del self.tables[name]

    def _execute(self, connection: nyala.Connection, sql: str, is_done_already: type[Exception]) -> None:
        for attempt in itertools.count():
            try:
                connection.execute(sql)
            except is_done_already:
                if attempt == 0:
                    raise
            except OperationalError as error:
                if not error.retryable or attempt == 3:
                    raise
                self.retried.append(f"{sql}: {error}")
                continue
            self.done += 1
            return

    # ---- afterwards --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The tables are there that are to be, with their columns, and take rows; none else of this maker is."""
        with nyala.connect(self.url) as connection:
            there = {table.name for table in connection.store.tables()}
            assert {name for name in there if name.startswith(f"{self.name}_")} == set(self.tables)
            for name, columns in self.tables.items():
                connection.execute(f"INSERT INTO {name} (id) VALUES (1)")
                cursor = connection.execute(f"SELECT * FROM {name}")
                assert tuple(column[0] for column in cursor.description) == columns
                assert cursor.fetchall() == [(1, None)[: len(columns)]]

    def drop_all(self) -> None:
        """Drop them."""
        with nyala.connect(self.url) as connection:
            for name in self.tables:
                connection.execute(f"DROP TABLE {name}")


def leading_master(cluster: MiniCluster) -> str:
    """The name of the master that leads; waits until one does."""
    found: list[str] = []

    def does_one_lead() -> bool:
        found[:] = [name for name in cluster.masters if leads(cluster, name)]
        return len(found) == 1

    cluster.wait_until(does_one_lead, "one master leads")
    return found[0]


def leads(cluster: MiniCluster, name: str) -> bool:
    try:
        status = cluster.call(name, GetStatus(), 2.0)
    except ClusterError:
        return False
    assert isinstance(status.is_leader, bool)
    return status.is_leader


def check_no_orphans(cluster: MiniCluster) -> None:
    """The tablet servers have the replicas that the catalog knows, and no others."""
    difference: set[tuple[str, str]] = set()

    def do_they_agree() -> bool:
        known = {
            (cluster.name_of(peer.address), location.tablet_id)
            for table in catalog(cluster)
            for location in cluster.locations(table)
            for peer in location.replicas
        }
        there = {
            (name, report.tablet_id)
            for name in cluster.tservers
            for report in cluster.call(name, ReportTablets()).tablets
        }
        difference.clear()
        difference.update(known ^ there)
        return not difference

    try:
        cluster.wait_until(do_they_agree, "catalog and tablet servers have the same replicas")
    except ClusterError as error:
        raise AssertionError(f"{error}: {sorted(difference)}") from error


def catalog(cluster: MiniCluster) -> list[str]:
    """The names of all tables."""
    return [table["name"] for table in cluster.ask_master(GetCatalog()).tables or ()]
