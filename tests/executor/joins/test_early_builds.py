"""Build sides that begin before their turn: beside the first where servers scan, and as if they had not else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from executor_support import MemoryStore
from nyala.errors import Cancelled, DataError
from nyala.executor import ExecutionContext
from nyala.executor.execute import execute
from nyala.executor.joins.early_builds import early_builds
from nyala.executor.run.early_work import EarlyWork, given_up
from nyala.model.store import ScanCounters, ScanToken
from nyala.model.vectors.vector import Batch
from nyala.planner import plan_query
from nyala.planner.algebra.physical import HashJoin, PhysicalNode, RuntimeFilter, TableScan, nodes
from nyala.planner.plan import Plan
from nyala.sql import bind, parse

SECONDS = 10.0
"""After which a test fails instead of waiting on."""


class ServedStore(MemoryStore):
    """As if its scans were servers' work, some of which stand still until they are told, or fail."""

    runs_fragments = True

    def __init__(self) -> None:
        super().__init__(batch_rows=100, tablets=2)
        self.gates: dict[str, threading.Event] = {}
        self.errors: dict[str, Exception] = {}
        self.begun: dict[str, threading.Event] = {}
        self.running = 0
        self.scans: list[str] = []
        self._lock = threading.Lock()

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        name = token.table.name
        with self._lock:
            self.scans.append(name)
            self.running += 1
            self.begun.setdefault(name, threading.Event()).set()
        try:
            while name in self.gates and not self.gates[name].wait(0.01):
                assert counters is not None and counters.watch is not None
                counters.watch(0)
            if name in self.errors:
                raise self.errors[name]
            yield from super().scan(token, counters)
        finally:
            with self._lock:
                self.running -= 1


@pytest.fixture
def store() -> ServedStore:
    found = ServedStore()
    numbers = np.arange(2000)
    found.add("f", pa.table({"k": numbers, "a": numbers % 50, "b": numbers % 40, "c": numbers % 30}), ["k"], "k")
    for name, rows in (("x", 50), ("y", 40), ("z", 30)):
        data = {f"{name}k": numbers[:rows], f"{name}v": numbers[:rows] % 7, f"{name}w": numbers[:rows] % 3}
        data[f"{name}e"] = numbers[:rows] % 3 * 2
        found.add(name, pa.table(data), [f"{name}k"])
    return found


QUERY = "SELECT k, xv, yv FROM f JOIN x ON a = xk JOIN y ON b = yk WHERE xv < 3 AND yw = 1"


def planned(store: MemoryStore, text: str) -> Plan:
    return plan_query(bind(parse(text)[0], store).query, store)  # type: ignore[union-attr]


def rows_of(store: MemoryStore, text: str, **options: Any) -> list[tuple[Any, ...]]:
    context = ExecutionContext(store, **{"threads": 2, **options})
    found = [
        row
        for batch in execute(planned(store, text).root, context)
        for row in zip(*(column.to_arrow().to_pylist() for column in batch.columns()), strict=True)
    ]
    return sorted(found, key=repr)


def embedded_rows(store: ServedStore, text: str) -> list[tuple[Any, ...]]:
    store.runs_fragments = False
    try:
        return rows_of(store, text)
    finally:
        store.runs_fragments = True


def scanned(node: PhysicalNode) -> set[str]:
    return {inner.table.name for inner in nodes(node) if isinstance(inner, TableScan)}


def first_and_early(plan: Plan) -> tuple[str, str]:
    """The tables of the build side that is opened first, and of the one that may be early."""
    (early,) = early_builds(plan.root)
    outer = next(node for node in nodes(plan.root) if isinstance(node, HashJoin))
    return min(scanned(outer.build)), min(scanned(early.build))


def with_empty_first(store: MemoryStore) -> tuple[str, str, str]:
    """A query whose first build side turns out to be empty, which nobody knew; its table and the early one's."""
    for name in ("x", "y"):
        text = f"{QUERY} AND {name}e = 1"
        first, early = first_and_early(planned(store, text))
        if first == name:
            return text, first, early
    raise AssertionError("neither is the first")


def test_a_build_side_begins_beside_the_first(store: ServedStore) -> None:
    first, early = first_and_early(planned(store, QUERY))
    # The first stands still until the other has begun.
    store.gates[first] = store.begun.setdefault(early, threading.Event())
    threading.Timer(SECONDS, store.gates[first].set).start()
    assert rows_of(store, QUERY) == embedded_rows(store, QUERY)
    assert set(store.scans[:2]) == {first, early}


@pytest.mark.parametrize("options", [{"threads": 1}, {}])
def test_where_nobody_waits_all_have_their_turn(store: ServedStore, options: dict[str, Any]) -> None:
    store.runs_fragments = bool(options)  # with one thread, not even where servers scan
    first, early = first_and_early(planned(store, QUERY))
    store.errors[first] = DataError("no such luck")
    with pytest.raises(DataError, match="no such luck"):
        rows_of(store, QUERY, **options)
    assert early not in store.scans


def test_an_error_is_raised_where_the_rows_are_wanted(store: ServedStore) -> None:
    _, early = first_and_early(planned(store, QUERY))
    store.errors[early] = DataError("no such luck")
    with pytest.raises(DataError, match="no such luck"):
        rows_of(store, QUERY)
    assert store.running == 0


def test_the_first_error_of_a_turn_is_the_one_that_is_raised(store: ServedStore) -> None:
    first, early = first_and_early(planned(store, QUERY))
    store.errors = {first: DataError("the first"), early: DataError("the other")}
    for _ in range(20):
        with pytest.raises(DataError, match="the first"):
            rows_of(store, QUERY)
    assert store.running == 0


def test_an_error_that_nobody_asks_for_never_happened(store: ServedStore) -> None:
    text, _, early = with_empty_first(store)
    store.errors[early] = DataError("no such luck")
    assert rows_of(store, text) == []
    assert store.running == 0


def test_what_nobody_wants_ends_with_the_statement(store: ServedStore) -> None:
    text, first, early = with_empty_first(store)
    store.gates[first] = store.begun.setdefault(early, threading.Event())
    store.gates[early] = threading.Event()  # never: it ends at a look at whoever waits
    assert rows_of(store, text) == []
    assert early in store.scans and store.running == 0


def test_a_cancel_ends_all_that_is_early(store: ServedStore) -> None:
    first, early = first_and_early(planned(store, QUERY))
    store.gates = {first: threading.Event(), early: threading.Event()}
    cancel = threading.Event()
    begun = store.begun.setdefault(early, threading.Event())
    canceller = threading.Thread(target=lambda: begun.wait(SECONDS) and cancel.set())
    canceller.start()
    with pytest.raises(Cancelled, match="the statement was cancelled"):
        rows_of(store, QUERY, cancel=cancel)
    canceller.join()
    assert store.running == 0


def test_an_interrupt_ends_all_that_is_early(store: ServedStore) -> None:
    first, early = first_and_early(planned(store, QUERY))
    begun = store.begun.setdefault(early, threading.Event())
    store.gates[early] = threading.Event()
    store.gates[first] = begun
    context = ExecutionContext(store, threads=2)
    take = EarlyWork.take

    def interrupted(work: EarlyWork[Any], number: int) -> Any:
        if number in work._futures:
            begun.wait(SECONDS)
            raise KeyboardInterrupt
        return take(work, number)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EarlyWork, "take", interrupted)
        list(execute(planned(store, QUERY).root, context))
    assert store.running == 0


def test_a_reader_who_leaves_early_leaves_nothing_running(store: ServedStore) -> None:
    batches = execute(planned(store, QUERY).root, ExecutionContext(store, threads=2))
    assert next(batches).length
    batches.close()  # type: ignore[attr-defined]
    assert store.running == 0
    assert len(rows_of(store, QUERY + " LIMIT 3")) == 3
    assert store.running == 0


def test_what_a_filter_from_above_reaches_waits_for_it(store: ServedStore) -> None:
    plan = planned(store, QUERY)
    (early,) = early_builds(plan.root)
    reached = next(node for node in nodes(early.build) if isinstance(node, TableScan))
    outer = next(node for node in nodes(plan.root) if isinstance(node, HashJoin))
    with_filter = replace(outer, runtime_filters=(RuntimeFilter(0, reached.fetched[0].id),))
    assert list(early_builds(with_filter)) == []


def test_no_recursion_is_early(store: ServedStore) -> None:
    text = (
        "WITH RECURSIVE r AS (SELECT zk AS n FROM z WHERE zk < 3 UNION SELECT zk + 1 FROM r JOIN z ON n = zk) "
        "SELECT k, n, xv FROM f JOIN r ON a = n JOIN x ON b = xk JOIN y ON c = yk"
    )
    root = planned(store, text).root
    assert all("z" not in scanned(join.build) for join in early_builds(root))
    assert rows_of(store, text) == embedded_rows(store, text)


WIDE = [
    QUERY,
    "SELECT k, xv, yv, zv FROM f JOIN x ON a = xk JOIN y ON b = yk JOIN z ON c = zk WHERE zw = 2",
    "SELECT k, xv, zv FROM f LEFT JOIN x ON a = xk AND xv = 1 LEFT JOIN (y JOIN z ON yv = zk) ON b = yk",
    "SELECT k, p.xw, q.xw FROM f JOIN x p ON a = p.xk AND p.xv = 2 JOIN x q ON b = q.xk AND q.xv = 2",
    "SELECT xk, n FROM x JOIN (SELECT b, max(yv) n FROM f JOIN y ON b = yk GROUP BY b) ON b = xk JOIN z ON xk = zk",
    "SELECT f.k, g.k FROM f JOIN f g ON f.a = g.k JOIN x ON f.b = xk JOIN y ON g.b = yk WHERE xw = 1 AND yw = 2",
    "WITH s AS (SELECT xk, yv FROM x JOIN y ON xk = yk) "
    "SELECT k, s.yv, t.yv FROM f JOIN s ON a = s.xk JOIN s t ON b = t.xk JOIN z ON c = zk",
]


@pytest.mark.parametrize("options", [{}, {"memory_limit": 60_000}, {"collect": True}], ids=str)
@pytest.mark.parametrize("text", WIDE)
def test_rows_are_the_same(store: ServedStore, text: str, options: dict[str, Any]) -> None:
    expected = embedded_rows(store, text)
    for _ in range(3):
        assert rows_of(store, text, **options) == expected
    assert store.running == 0


def test_shared_rows_are_made_once_for_all_threads(store: ServedStore) -> None:
    text = "SELECT k, p.xw, q.xv FROM f JOIN x p ON a = p.xk AND p.xv = 2 JOIN x q ON b = q.xk AND q.xv = 2"
    for _ in range(10):
        store.scans.clear()
        rows_of(store, text)
        assert store.scans.count("x") == 1


def test_what_is_early_counts_for_its_join(store: ServedStore) -> None:
    plan = planned(store, QUERY)
    (early,) = early_builds(plan.root)
    context = ExecutionContext(store, threads=2, collect=True)
    list(execute(plan.root, context))
    assert context.actuals.of(early).memory > 0
    assert context.actuals.of(early.build).rows == sum(number % 3 == 1 for number in range(40))


# ---- early work by itself --------------------------------------------------------------------------------------------


def test_work_is_taken_once() -> None:
    work: EarlyWork[str] = EarlyWork()
    done = threading.Event()
    work.start(1, lambda: (done.set(), "done")[1])
    assert done.wait(SECONDS)
    assert work.take(1) == "done"
    assert work.take(1) is None
    assert work.take(2) is None
    work.close()


def test_work_that_no_thread_was_free_for_is_whoever_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    work: EarlyWork[int] = EarlyWork()
    stop = threading.Event()
    for number in range(100):  # more than there are threads
        work.start(number, lambda: int(stop.wait(SECONDS)))
    assert work.take(99) is None
    stop.set()
    work.close()


def test_work_that_is_stopped_knows_it() -> None:
    work: EarlyWork[bool] = EarlyWork()
    begun, ended = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        (event,) = given_up.events
        ended.set() if event.wait(SECONDS) else None
        return True

    work.start(1, wait)
    assert begun.wait(SECONDS)
    work.close()
    assert ended.is_set() and work.take(1) is None
    assert given_up.events == ()
