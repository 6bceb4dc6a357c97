"""The option `--store`: SQL tests, written for an embedded store, run on one that is served or on a cluster.

    pytest --store=cluster tests/driver/test_dbapi.py

With `served`, each store ":memory:" is behind a server in this process, reached by the cluster's protocol; with
`cluster`, a store's tables are those of a cluster of three servers, which the first store starts; their tablets have
three replicas, or as many as `--store-replicas` says. A test that names a directory or gives options of the embedded
store gets an embedded one, as does one that has a second store open on the cluster. What cannot pass elsewhere says so,
on a module, a class or a test:

    @pytest.mark.embedded_only("needs tablets in this process")
    @pytest.mark.embedded_only("moves the servers' clocks", "cluster")  # runs with --store=served

Such a declared gap is skipped. `--store-gaps` runs nothing but gaps, and lists those that pass on a store, to be
removed. A test that calls nothing that opens a store, itself or by its fixtures and helpers, is skipped, too. The
summary names the modules that ran and opened none.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import nyala
import pytest
from examples import limit_examples
from nyala.cluster.client.client import Client
from nyala.cluster.embedded_server.server import EmbeddedServer
from nyala.driver.stores import open_stores
from nyala.driver.stores.cluster_url import servers
from nyala.driver.stores.open_stores import SharedStore
from nyala.errors import Error
from nyala.executor.fragments.evaluate import table_evaluator
from nyala.model.access.roles import Access
from nyala.model.access.steps import AccessStep, AddGrant, DropRole, PermitNoUsers, RemoveGrant
from nyala.model.namespaces import DEFAULT_NAMESPACE
from nyala.storage.database import MEMORY, Database
from nyala.testing import MiniCluster

SERVED, CLUSTER = "served", "cluster"
ROOMS = ("sql", "planner", "executor", "driver", "sqlalchemy", "shell")
"""Folders of tests that may open a store through `nyala.connect`; others run on what they name themselves."""
EXAMPLES = 10
"""Of a property, at most, on another store: the embedded one is tried with more of them, in a tenth of the time."""
OPENERS = {"create_engine", "main"}
"""Names of functions, beside `nyala.connect`, that may open a store in this process."""
DROPPED = "ignore:a connection to nyala:ResourceWarning"
"""Tests may drop a connection to a store in memory; of others, that is worth a warning."""
TESTS = Path(__file__).parent
CLUSTER_LOCK = threading.RLock()
"""Held while a store takes the cluster, or gives it back."""
embedded = open_stores.in_memory


class ServedStore(Client):
    """A store in memory, behind a server in this process."""

    is_open = True

    def __init__(self, threads: int) -> None:
        self._database = Database(MEMORY, threads=threads)
        self._server = EmbeddedServer(self._database, directory=None, fragments=table_evaluator)
        self._server.start()
        super().__init__(servers(self._server.url))

    def close(self) -> None:
        """Also ends the server."""
        super().close()
        if self.is_open:
            self.is_open = False
            self._server.close(0.0)
            self._database.close()


class ClusterStore(Client):
    """All tables of a cluster; none when it is opened."""

    is_open = True
    """The cluster is this store's."""

    def __init__(self, cluster: MiniCluster) -> None:
        super().__init__(servers(cluster.url))
        try:
            self._drop_all()
        except BaseException:
            super().close()
            raise

    def close(self) -> None:
        """Also drops everything."""
        # One that the collector found is closed by a thread of its own, while the next test opens its store: what is
        # dropped there must not be the next one's.
        with CLUSTER_LOCK:
            if self.is_open:
                with contextlib.suppress(Error):
                    self._drop_all()
                self.is_open = False
        super().close()

    def _drop_all(self) -> None:
        self.drop_views([view.name for view in self.views()])
        for table in self.tables():
            self.drop_table(table.name)
        for namespace in self.namespaces():
            if namespace.name != DEFAULT_NAMESPACE:
                self.drop_namespace(namespace.name)
        self.change_access(list(_to_no_users(self.access)))


def _to_no_users(access: Access) -> Iterator[AccessStep]:
    """The steps to what a new store has, where nothing else has grants or owners."""
    if access.is_first:
        return
    for grant in access.grants:
        yield RemoveGrant(grant.key, grant.right, grant.grantee, grant.grantor, cascade=True)
    yield PermitNoUsers()
    for role in access.roles:
        yield DropRole(role)
    for grant in Access().grants:
        yield AddGrant(grant)


class OtherStores:
    """A pytest plugin that gives out stores of another kind in place of embedded ones.

    Parameters
    ----------
    kind : str
        "served" or "cluster".
    gaps : bool
        Run the declared gaps alone.
    replicas : int
        Of each tablet of a cluster.
    """

    def __init__(self, kind: str, gaps: bool, replicas: int = 3) -> None:
        self.kind = kind
        self.gaps = gaps
        self._replicas = replicas
        self._cluster: MiniCluster | None = None
        self._of_cluster: ClusterStore | None = None
        """The last one: no second has the cluster while it is open."""
        self._in_test = False
        self._opened = 0
        """Stores that the test which runs, and its fixtures, have opened."""
        self._of_test: list[ClusterStore] = []
        """Opened by the test itself, not by its fixtures, which close theirs."""
        self._by_module: dict[str, int] = {}
        self._stale: list[str] = []

    def open(self, threads: int, **options: Any) -> SharedStore:
        """In place of `open_stores.in_memory`."""
        with CLUSTER_LOCK:
            return self._open(threads, **options)

    def _open(self, threads: int, **options: Any) -> SharedStore:
        if options or (self._of_cluster is not None and self._of_cluster.is_open):
            return embedded(threads, **options)
        if self.kind == SERVED:
            store: Client = ServedStore(threads)
        else:
            store = self._of_cluster = self._on_cluster()
            if self._in_test:
                self._of_test.append(store)
        self._opened += 1
        return SharedStore(store, None, {}, url=store.name)

    def _on_cluster(self) -> ClusterStore:
        if self._cluster is None:
            options = {"durability": "os", "master.replicas": str(self._replicas)}
            self._cluster = MiniCluster(tservers=3, options=options)
        return ClusterStore(self._cluster)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        open_stores.in_memory = self.open

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        open_stores.in_memory = embedded
        if self._cluster is not None:
            self._cluster.close()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen, others, reach = [], [], Reach()
        for item in items:
            reasons = list(self.declared(item))
            if not self.gaps and not reasons and not reach.of(item):
                reasons = ["opens no store"]
            if not any(TESTS / room in item.path.parents for room in ROOMS) or (self.gaps and not reasons):
                others.append(item)
                continue
            chosen.append(item)
            item.add_marker(pytest.mark.filterwarnings(DROPPED))
            for reason in reasons[:1]:
                item.add_marker(
                    pytest.mark.xfail(reason=reason, strict=False) if self.gaps else pytest.mark.skip(reason=reason)
                )
        items[:] = chosen
        config.hook.pytest_deselected(items=others)
        limit_examples(items, EXAMPLES)

    def declared(self, item: pytest.Item) -> Iterator[str]:
        """The reasons for which a test does not run on this kind of store."""
        for mark in item.iter_markers("embedded_only"):
            if not mark.args or not set(mark.args[1:]) <= {SERVED, CLUSTER}:
                raise pytest.UsageError(f'{item.nodeid}: embedded_only("why", "{SERVED}" or "{CLUSTER}" if one alone)')
            if self.kind in (mark.args[1:] or (self.kind,)):
                yield f"embedded only: {mark.args[0]}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self._opened = 0
        result = yield
        # A test may leave its store to the garbage collector. The next one has the cluster all the same.
        with CLUSTER_LOCK:
            for store in self._of_test:
                store.is_open = False
            self._of_test.clear()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        self._in_test = True
        try:
            return (yield)
        finally:
            self._in_test = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
        report = yield
        report.user_properties.append(("stores", self._opened))  # also from workers
        self._opened = 0
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        module = report.nodeid.partition("::")[0]
        stores = sum(int(str(count)) for name, count in report.user_properties if name == "stores")
        self._by_module[module] = self._by_module.get(module, 0) + (0 if report.skipped else stores)
        if report.when == "call" and report.passed and getattr(report, "wasxfail", None):
            self._stale.append(f"{report.nodeid}: {report.wasxfail}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        idle = sorted(module for module, stores in self._by_module.items() if not stores)
        write = terminalreporter.write_line
        write(f"{sum(self._by_module.values())} stores: {self.kind}")
        if self.gaps:
            _list(write, "gaps that pass, to be removed unless they save time", self._stale)
        else:
            _list(write, "modules that opened none", idle)


class Reach:
    """Finds whether a test may open a store: by the names in its code and in the code of `tests/` that they lead to."""

    def __init__(self) -> None:
        self._seen: dict[int, bool] = {}

    def of(self, item: pytest.Item) -> bool:
        """True if a store may be opened; also for tests that are no functions."""
        if not isinstance(item, pytest.Function):
            return True
        test = getattr(item.obj, "hypothesis", None)
        starts = [test.inner_test if test is not None else item.obj]
        starts += [fixture.func for fixtures in item._fixtureinfo.name2fixturedefs.values() for fixture in fixtures]
        starts += item.callspec.params.values() if hasattr(item, "callspec") else []
        return any(self.opens(start) for start in starts)

    def opens(self, value: object) -> bool:
        """Whether calling a value may open a store."""
        value = inspect.unwrap(value) if callable(value) else value
        value = getattr(value, "__func__", value)
        if id(value) in self._seen:
            return self._seen[id(value)]
        self._seen[id(value)] = False  # of one that calls itself, the rest decides
        if isinstance(value, FunctionType) and _is_of_tests(value.__code__.co_filename):
            self._seen[id(value)] = self._function_opens(value)
        elif isinstance(value, type) and _is_of_tests(_file(sys.modules.get(value.__module__))):
            self._seen[id(value)] = any(self.opens(method) for method in vars(value).values())
        return self._seen[id(value)]

    def _function_opens(self, function: FunctionType) -> bool:
        names = _names(function.__code__)
        if OPENERS & names or {"nyala", "connect"} <= names:
            return True
        reached = [function.__globals__[name] for name in names if name in function.__globals__]
        modules = [module for module in reached if isinstance(module, ModuleType) and _is_of_tests(_file(module))]
        reached += [getattr(module, name) for module in modules for name in names if hasattr(module, name)]
        return any(value is nyala.connect for value in reached) or any(self.opens(value) for value in reached)


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _file(module: ModuleType | None) -> str:
    return getattr(module, "__file__", None) or ""


def _is_of_tests(file: str) -> bool:
    return file.startswith(f"{TESTS}/")


def _list(write: Any, what: str, names: Sequence[str]) -> None:
    write(f"{len(names)} {what}" + ":" * bool(names))
    for name in names:
        write(f"  {name}")
