"""DDL, its retries, and masters that die in the middle of it: over fake tablet servers and rows in memory."""

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from nyala.cluster.master.balance.coordinator import Coordinator
from nyala.cluster.master.catalog.catalog_manager import CatalogManager
from nyala.cluster.master.catalog.ddl import Ddl
from nyala.cluster.master.catalog.records import Change, Record, decode_record, encode_record
from nyala.cluster.master.options import MasterOptions
from nyala.cluster.master.queries import Queries
from nyala.cluster.wire.messages.catalog_methods import (
    AlterTableStep,
    CatalogStep,
    ChangeCatalog,
    CreateNamespaceStep,
    DropNamespaceStep,
    RenameViewStep,
    ReplaceViewStep,
)
from nyala.cluster.wire.messages.maintenance_methods import LeaveCluster, MaintainServer
from nyala.cluster.wire.messages.methods import (
    AlterTable,
    AlterTablet,
    Call,
    CreateTable,
    CreateTablet,
    CreateView,
    DeleteTablet,
    DropTable,
    DropViews,
    GetCatalog,
    Heartbeat,
    HeartbeatReply,
    ListServers,
    LocateTablets,
    LocationsReply,
    Request,
    TableReply,
)
from nyala.cluster.wire.messages.plain import (
    definition_to_plain,
    entry_from_plain,
    namespace_to_plain,
    step_to_plain,
    view_to_plain,
)
from nyala.cluster.wire.messages.view_methods import RenameView
from nyala.errors import (
    ClusterError,
    DeadlineExceeded,
    DependentObjects,
    DiskError,
    DuplicateTable,
    InvalidTableDefinition,
    NotTheLeader,
    SchemaChanged,
    UnknownTable,
)
from nyala.model.alterations import (
    AddColumn,
    AddRangePartition,
    AlterStep,
    DropRangePartition,
    RenameTable,
    SetComment,
    SetReplicas,
)
from nyala.model.namespaces import Namespace
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    TableDefinition,
    View,
)
from nyala.model.types import BIGINT

from tests.fake_tservers import FakeTservers, eventually

COLUMNS = (ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", BIGINT))
RANGES = tuple(RangePartition((low,), (low + 10,)) for low in (0, 10))


def definition(name: str = "t", buckets: int = 0, ranges: bool = False, replicas: int | None = None) -> dict[str, Any]:
    rules = (HashRule(("k",), buckets),) if buckets else ()
    rule = RangeRule(("k",), RANGES) if ranges else None
    return definition_to_plain(
        TableDefinition(name, Schema(COLUMNS, 1), PartitionSchema(rules, rule), replicas=replicas)
    )


class MemoryRows:
    """The rows of a system tablet that outlives masters: one of them leads at a time."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bytes] = {}
        self.leader: object = None
        self.term = 0
        self.leader_address = "other:1"
        self.disk_full = ""
        self.fail: Callable[[Change], str] = lambda change: ""
        """"before" or "after": a write fails, without effect or with it."""

    def of(self) -> "MasterRows":
        """The rows as a new master reads them, which leads from now on."""
        self.term += 1
        self.leader = rows = MasterRows(self, self.term)
        return rows


class MasterRows:
    """`CatalogRows`."""

    def __init__(self, shared: MemoryRows, term: int):
        self._shared = shared
        self._term = term

    @property
    def serving_term(self) -> int | None:
        return self._term if self._shared.leader is self else None

    @property
    def leader_address(self) -> str:
        return self._shared.leader_address

    @property
    def absence(self) -> str:
        return ""

    @property
    def disk_full(self) -> str:
        return self._shared.disk_full

    def check_leader(self) -> None:
        if self.serving_term is None:
            raise NotTheLeader("deposed", "other:1")

    def check_space(self) -> None:
        pass

    def load(self, deadline: float) -> Sequence[Record]:
        self.check_leader()
        return [decode_record(kind, id_, body) for (kind, id_), body in self._shared.rows.items()]

    def write(self, change: Change, deadline: float) -> None:
        self.check_leader()
        when = self._shared.fail(change)
        if when == "before":
            raise DiskError("made to fail")
        keys = list(change.keys)
        assert len(keys) == len(set(keys)), f"a key stands twice in {keys}"
        for key in change.removes:
            self._shared.rows.pop(key)
        for record in change.puts:
            self._shared.rows[record.key] = encode_record(record)
        if when == "after":
            raise DiskError("made to fail")


class Context:
    """A call's context."""

    def __init__(self, seconds: float = 20.0):
        self.deadline = time.monotonic() + seconds


class Master:
    """A master without a port."""

    def __init__(self, rows: MemoryRows, channels: Any, **options: Any):
        self.options = MasterOptions(**{"directory": "", "warm_up": 0.05, "surplus_grace": 0.3, **options})
        self.manager = CatalogManager(rows.of())
        rng = random.Random(1)
        self.ddl = Ddl(self.manager, self.options, rng)
        self.queries = Queries(self.manager, self.options, lambda: ("m:1",), "m:1")
        self.coordinator = Coordinator(self.manager, self.ddl, channels, self.options, rng)
        self.coordinator.start()

    def call(self, request: Request, seconds: float = 20.0) -> Any:
        handlers: dict[type[Request], Callable[[Any, Any], Any]] = {
            CreateTable: self.ddl.create_table,
            AlterTable: self.ddl.alter_table,
            DropTable: self.ddl.drop_table,
            CreateView: self.ddl.create_view,
            DropViews: self.ddl.drop_views,
            RenameView: self.ddl.rename_view,
            ChangeCatalog: self.ddl.change_catalog,
            LeaveCluster: self.ddl.leave_cluster,
            MaintainServer: self.ddl.maintain_server,
            Heartbeat: self.queries.heartbeat,
            GetCatalog: self.queries.catalog,
            LocateTablets: self.queries.locate,
            ListServers: self.queries.servers,
        }
        return handlers[type(request)](request, Context(seconds))


class World:
    """Masters, one after the other, and tablet servers."""

    def __init__(self, servers: str = "abc", **options: Any):
        self.rows = MemoryRows()
        self.options = options
        self.tservers = FakeTservers(servers, self._beat)
        self.master = Master(self.rows, self, **options)
        self.calls = 0
        self.client = uuid.uuid4().hex
        self.tservers.start()
        eventually(lambda: self._reported() == set(servers))

    def _reported(self) -> set[str]:
        try:
            _, directory = self.master.manager.leading()
        except NotTheLeader:
            return set()
        return {server.id for server in directory.servers.values() if server.has_reported}

    # Channels
    def get(self, address: str) -> Any:
        server = next(s for s in self.tservers.servers.values() if s.address == address)

        class Channel:
            def call(self, request: Request, timeout: float = 30.0) -> Any:
                return server.handlers[type(request)](request, None)

        return Channel()

    def _beat(self, beat: Heartbeat) -> HeartbeatReply:
        reply: HeartbeatReply = self.master.call(beat)
        return reply

    def restart(self) -> None:
        """The master dies, and another one leads."""
        self.master.coordinator.stop()
        self.master = Master(self.rows, self, **self.options)
        eventually(lambda: self._reported() >= {s.id for s in self.tservers.servers.values() if s.is_up})

    def close(self) -> None:
        self.tservers.stop()
        self.master.coordinator.stop()

    def next_call(self, first_incomplete: int | None = None) -> Call:
        self.calls += 1
        return Call(self.client, self.calls, first_incomplete or self.calls)

    def create(self, name: str = "t", call: Call | None = None, seconds: float = 20.0, **kinds: Any) -> TableReply:
        request = CreateTable(definition=definition(name, **kinds), replicas=None, call=call or self.next_call())
        reply: TableReply = self.master.call(request, seconds)
        return reply

    def alter(self, name: str, *steps: AlterStep, call: Call | None = None, seconds: float = 20.0) -> TableReply:
        plain = tuple(step_to_plain(step) for step in steps)
        request = AlterTable(name=name, steps=plain, call=call or self.next_call())
        reply: TableReply = self.master.call(request, seconds)
        return reply

    def drop(self, name: str, *views: str) -> None:
        self.master.call(DropTable(name=name, views=views, call=self.next_call()))

    def locate(self, table: TableReply) -> LocationsReply:
        reply: LocationsReply = self.master.call(LocateTablets(table_id=table.table["id"]))
        return reply

    def names(self) -> list[str]:
        return [table["name"] for table in self.master.call(GetCatalog()).tables]


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    yield found
    found.close()


def test_create_places_leads_and_answers(world: World) -> None:
    reply = world.create(buckets=4)
    entry = entry_from_plain(reply.table)
    assert entry.table.name == "t"
    assert reply.table["replicas"] == 3
    located = world.locate(reply).tablets
    assert [tablet.tablet_id for tablet in located] == list(entry.tablet_ids)
    assert all(tablet.leader for tablet in located)
    assert all({peer.id for peer in tablet.replicas} == set("abc") for tablet in located)
    assert world.names() == ["t"]
    known = world.master.call(GetCatalog(known_version=reply.version))
    assert known.tables is None


def test_names_are_taken_once(world: World) -> None:
    world.create()
    view = view_to_plain(View("seen", "SELECT 1", ("a",)))
    world.master.call(CreateView(view=view, replace=False, call=world.next_call()))
    for name in ("t", "seen"):
        with pytest.raises(DuplicateTable, match=name):
            world.create(name)
    with pytest.raises(InvalidTableDefinition):
        world.create("u", buckets=1)
    with pytest.raises(UnknownTable, match="table tt does not exist"):
        world.drop("tt")


def test_too_many_replicas_are_refused(world: World) -> None:
    with pytest.raises(ClusterError, match=r"at least 5 tablet servers: 3 are alive$"):
        world.create(replicas=5)
    assert world.names() == []


def test_a_table_does_not_get_fewer_replicas_because_servers_are_down() -> None:
    world = World("abc", dead_after=0.5)
    try:
        for name in "bc":
            world.tservers.servers[name].is_up = False
        eventually(lambda: [s.state for s in world.master.call(ListServers()).tservers] == ["ALIVE", "DEAD", "DEAD"])
        with pytest.raises(ClusterError, match=r"3 replicas .* 1 is alive and b:1, c:1 are dead .*: REPLICAS 1$"):
            world.create()
        assert world.names() == []
        assert world.create("one", replicas=1).table["replicas"] == 1
        # A server that has left is not waited for.
        for name in "bc":
            world.master.call(LeaveCluster(server=name))
        assert world.create("two").table["replicas"] == 1
    finally:
        world.close()


def test_a_new_master_waits_for_servers_that_a_table_needs(world: World) -> None:
    world.create()
    late = world.tservers.servers["b"]
    late.is_up = False
    world.restart()
    threading.Timer(0.5, lambda: setattr(late, "is_up", True)).start()
    assert world.create("u").table["replicas"] == 3


def test_drop_deletes_replicas_for_good_and_views_with_them(world: World) -> None:
    reply = world.create(buckets=2)
    for name in ("v", "w"):
        view = view_to_plain(View(name, "SELECT 1", ("a",)))
        world.master.call(CreateView(view=view, replace=False, call=world.next_call()))
    world.drop("t", "v", "none")
    assert world.names() == []
    assert [view["name"] for view in world.master.call(GetCatalog()).views] == ["w"]
    eventually(lambda: not world.tservers.of("t"))
    orders = [o for s in world.tservers.servers.values() for o in s.orders if isinstance(o, DeleteTablet)]
    assert all(order.forget for order in orders)
    with pytest.raises(UnknownTable):
        world.locate(reply)


def test_a_view_is_renamed_once_and_in_one_step(world: World) -> None:
    for name in ("v", "w"):
        view = view_to_plain(View(name, "SELECT 1", ("a",)))
        world.master.call(CreateView(view=view, replace=False, call=world.next_call()))
    with pytest.raises(DuplicateTable, match="view w exists already"):
        world.master.call(RenameView(name="v", new_name="w", namespace="public", call=world.next_call()))
    rename = RenameView(name="v", new_name="x", namespace="public", call=world.next_call())
    before = world.master.call(GetCatalog())
    for _ in range(2):  # the second is the retry of a client that has lost the reply
        world.master.call(rename)
    after = world.master.call(GetCatalog())
    assert after.version == before.version + 1
    assert {view["name"]: view["text"] for view in after.views} == {"w": "SELECT 1", "x": "SELECT 1"}
    world.restart()
    assert [view["name"] for view in world.master.call(GetCatalog()).views] == ["w", "x"]


def test_several_changes_are_one_step_made_once(world: World) -> None:
    world.create()
    view = View("v", "SELECT k FROM t", ("k",))
    world.master.call(CreateView(view=view_to_plain(view), replace=False, call=world.next_call()))
    steps: tuple[CatalogStep, ...] = (
        CreateNamespaceStep(namespace_to_plain(Namespace("s"))),
        AlterTableStep("t", (step_to_plain(RenameTable("s.t", "s")),)),
        ReplaceViewStep(view_to_plain(view), view_to_plain(replace(view, text="SELECT k FROM s.t"))),
        RenameViewStep("v", "s.v", "s"),
    )
    before = world.master.call(GetCatalog())
    wrong = (*steps, RenameViewStep("v", "w", "public"))  # it is called s.v by then
    with pytest.raises(UnknownTable, match="view v does not exist"):
        world.master.call(ChangeCatalog(steps=wrong, call=world.next_call()))
    assert world.master.call(GetCatalog()).version == before.version
    change = ChangeCatalog(steps=steps, call=world.next_call())
    for _ in range(2):  # the second is the retry of a client that has lost the reply
        world.master.call(change)
    with pytest.raises(SchemaChanged, match="view v has been replaced or dropped meanwhile"):
        world.master.call(ChangeCatalog(steps=steps[2:], call=world.next_call()))
    world.restart()
    after = world.master.call(GetCatalog())
    assert [(found["name"], found["text"]) for found in after.views] == [("s.v", "SELECT k FROM s.t")]
    assert [found["name"] for found in after.tables] == ["s.t"] and after.namespaces == ({"name": "s"},)
    with pytest.raises(DependentObjects, match="schema s has"):
        world.master.call(ChangeCatalog(steps=(DropNamespaceStep("s"),), call=world.next_call()))


def test_a_server_that_was_away_deletes_what_was_dropped(world: World) -> None:
    world.create()
    world.tservers.servers["c"].is_up = False
    world.drop("t")
    eventually(lambda: set().union(*world.tservers.of("t").values()) == {"c"})
    world.restart()
    world.tservers.servers["c"].is_up = True
    eventually(lambda: not world.tservers.of("t"))


def test_replicas_that_nobody_knows_are_left_alone(world: World) -> None:
    """Of a table with a number that this cluster has not assigned yet: there is no record that it was dropped."""
    world.create()
    tablet = world.tservers.tablets["t000001-p0000"]
    with world.tservers.lock:
        for stranger in ("t000009-p0000", "t000001-p0007"):
            alien = type(tablet)(tablet.configuration, stranger.partition("-")[0], 0, "alien", replicas={"a"})
            world.tservers.tablets[stranger] = alien
    world.drop("t")
    eventually(lambda: not world.tservers.of("t"))
    # The replica of the dropped table is deleted with it, whatever its number.
    eventually(lambda: list(world.tservers.of("alien")) == ["t000009-p0000"])


def test_alter_brings_all_tablets_to_the_version(world: World) -> None:
    world.create(ranges=True)
    reply = world.alter(
        "t",
        AddColumn(ColumnSchema("w", BIGINT)),
        AddRangePartition(RangePartition((20,), (30,))),
        DropRangePartition(RANGES[0]),
        RenameTable("u"),
    )
    entry = entry_from_plain(reply.table)
    assert (entry.table.name, entry.table.version) == ("u", 1)
    assert entry.tablet_ids == ("t000001-p0001", "t000001-p0002")
    assert {world.tservers.tablets[tablet].version for tablet in entry.tablet_ids} == {1}
    assert world.names() == ["u"]
    eventually(lambda: not world.tservers.tablets["t000001-p0000"].replicas)
    assert len(world.locate(reply).tablets) == 2


def test_calls_that_come_again_change_nothing(world: World) -> None:
    first = world.next_call(1)
    one = world.create(call=first)
    again = world.create(call=first)
    assert again.table == one.table
    step = AddColumn(ColumnSchema("w", BIGINT))
    second = world.next_call(1)
    altered = world.alter("t", step, call=second)
    world.restart()
    assert world.alter("t", step, call=second).table == altered.table
    drop = DropTable(name="t", views=(), call=world.next_call(1))
    world.master.call(drop)
    world.master.call(drop)
    view = CreateView(view=view_to_plain(View("t", "SELECT 1", ("a",))), replace=False, call=world.next_call(1))
    world.master.call(view)
    world.master.call(view)
    with pytest.raises(UnknownTable, match="dropped before"):
        world.create(call=first)


def test_answered_calls_are_forgotten(world: World) -> None:
    for number in range(5):
        world.create(f"t{number}")
    assert len([kind for kind, _ in world.rows.rows if kind == "call"]) == 1


def test_the_same_call_twice_at_once(world: World) -> None:
    call = world.next_call()
    world.tservers.servers["a"].refuses = world.tservers.servers["b"].refuses = {CreateTablet}
    replies: list[TableReply] = []
    threads = [threading.Thread(target=lambda: replies.append(world.create(call=call))) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: world.names() == ["t"])
    world.tservers.servers["a"].refuses = world.tservers.servers["b"].refuses = set()
    for thread in threads:
        thread.join()
    assert len(replies) == 3
    assert all(reply.table == replies[0].table for reply in replies)


# ---- masters that die ------------------------------------------------------------------------------------------------


def test_create_goes_on_with_another_master(world: World) -> None:
    for server in world.tservers.servers.values():
        server.refuses = {CreateTablet}
    call = world.next_call()
    with pytest.raises(DeadlineExceeded, match="2 of 2 tablets"):
        world.create(buckets=2, call=call, seconds=0.3)
    world.restart()
    for server in world.tservers.servers.values():
        server.refuses = set()
    assert world.create(buckets=2, call=call).table["id"] == "t000001"
    assert world.names() == ["t"]


def test_alter_goes_on_with_another_master(world: World) -> None:
    world.create(ranges=True)
    for server in world.tservers.servers.values():
        server.refuses = {AlterTablet, CreateTablet}
    call = world.next_call()
    steps = (AddRangePartition(RangePartition((20,), (30,))), DropRangePartition(RANGES[0]))
    with pytest.raises(DeadlineExceeded, match="2 of 2 tablets"):
        world.alter("t", *steps, call=call, seconds=0.3)
    # Rows of the dropped range stay until the others have the version without it.
    assert world.tservers.tablets["t000001-p0000"].replicas == set("abc")
    world.restart()
    for server in world.tservers.servers.values():
        server.refuses = set()
    assert world.alter("t", *steps, call=call).table["version"] == 1
    eventually(lambda: not world.tservers.tablets["t000001-p0000"].replicas)


def test_drop_goes_on_with_another_master(world: World) -> None:
    world.create()
    for server in world.tservers.servers.values():
        server.refuses = {DeleteTablet}
    world.drop("t")
    world.restart()
    assert world.names() == []
    for server in world.tservers.servers.values():
        server.refuses = set()
    eventually(lambda: not world.tservers.of("t"))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_that_failed_is_looked_up(world: World, when: str) -> None:
    """The write of a change fails, and its outcome is unknown: the next call reads it."""
    failing = {"table"}

    def fail(change: Change) -> str:
        kinds = {record.kind for record in change.puts} & failing
        failing.difference_update(kinds)
        return when if kinds else ""

    world.rows.fail = fail
    call = world.next_call()
    with pytest.raises(DiskError):
        world.create(call=call)
    eventually(lambda: world.master.manager.is_leading)
    assert world.names() == (["t"] if when == "after" else [])
    assert world.create(call=call).table["id"] == "t000001"


def test_a_master_that_was_deposed_answers_nothing(world: World) -> None:
    world.create()
    before = world.master
    world.rows.of()
    for request in (GetCatalog(), LocateTablets(table_id="t000001"), ListServers()):
        with pytest.raises(NotTheLeader) as raised:
            before.call(request)
        assert raised.value.leader == "other:1"
    beat = Heartbeat(server=world.tservers.servers["a"].peer, sequence=10**6, is_full=True)
    assert before.call(beat) == HeartbeatReply(is_leader=False, leader="other:1")


def test_a_master_that_cannot_be_elected_says_why(world: World) -> None:
    before = world.master
    world.rows.of()
    world.rows.leader_address, world.rows.disk_full = "", "disk full: /m: No space left on device"
    with pytest.raises(NotTheLeader, match=r"no master leads at the moment, .*: disk full: /m: No space left"):
        before.manager.leading()


# ---- servers that die ------------------------------------------------------------------------------------------------


def test_create_with_a_server_down_is_served_by_the_others(world: World) -> None:
    world.tservers.servers["c"].is_up = False
    reply = world.create()
    assert world.locate(reply).tablets[0].leader in ("a", "b")
    world.tservers.servers["c"].is_up = True
    eventually(lambda: world.tservers.of("t") == {"t000001-p0000": {"a", "b", "c"}})
    # It has copied the data: an empty voter is not created once a leader has served.
    assert not any(isinstance(order, CreateTablet) for order in world.tservers.servers["c"].orders)


def test_a_tablet_that_cannot_be_created_is_placed_anew() -> None:
    world = World("abcde", creation_timeout=0.4)
    try:
        for name in "ab":
            world.tservers.servers[name].refuses = {CreateTablet}
        reply = world.create(buckets=3)
        for tablet in world.locate(reply).tablets:
            assert len(world.tservers.tablets[tablet.tablet_id].replicas & set("cde")) >= 2
        current = {tablet.tablet_id for tablet in world.locate(reply).tablets}
        for name in "ab":
            world.tservers.servers[name].refuses = set()
        eventually(lambda: world.tservers.of("t").keys() == current)
    finally:
        world.close()


def test_a_dead_servers_replicas_are_made_anew() -> None:
    world = World("abcd", dead_after=0.5)
    try:
        reply = world.create(buckets=4)
        world.tservers.servers["a"].is_up = False
        eventually(lambda: all("a" not in {p.id for p in t.replicas} for t in world.locate(reply).tablets))
        eventually(lambda: all(len(t.replicas) == 3 for t in world.locate(reply).tablets))
        states = {server.id: server.state for server in world.master.call(ListServers()).tservers}
        assert states == {"a": "DEAD", "b": "ALIVE", "c": "ALIVE", "d": "ALIVE"}
        world.tservers.servers["a"].is_up = True
        eventually(lambda: all(servers == set("bcd") for servers in world.tservers.of("t").values()))
        eventually(lambda: world.master.call(ListServers()).tservers[0].state == "ALIVE")
    finally:
        world.close()


def test_a_leaving_server_is_emptied_also_by_the_next_master() -> None:
    world = World("abcd")
    try:
        reply = world.create(buckets=4)
        world.master.call(LeaveCluster(server="b"))
        world.restart()
        eventually(lambda: all(servers == set("acd") for servers in world.tservers.of("t").values()))
        states = {server.id: server.state for server in world.master.call(ListServers()).tservers}
        assert states["b"] == "LEAVING"
        other = world.create("u", buckets=4)
        assert all("b" not in {p.id for p in t.replicas} for t in world.locate(other).tablets)
        world.master.call(LeaveCluster(server="b", leaving=False))
        with pytest.raises(ClusterError, match="it has: a at a:1"):
            world.master.call(LeaveCluster(server="x"))
        assert len(world.locate(reply).tablets) == 4
    finally:
        world.close()


def test_a_server_in_maintenance_keeps_its_replicas_also_under_the_next_master() -> None:
    world = World("abcd", dead_after=0.5)
    try:
        reply = world.create(buckets=4)
        places = lambda: [{p.id for p in t.replicas} for t in world.locate(reply).tablets]  # noqa: E731
        before = places()
        world.master.call(MaintainServer(server="a"))
        world.tservers.servers["a"].is_up = False
        world.restart()
        servers = lambda: {server.id: server for server in world.master.call(ListServers()).tservers}  # noqa: E731
        eventually(lambda: servers()["a"].state == "DEAD")
        assert servers()["a"].in_maintenance
        other = world.create("u", buckets=4)
        assert all("a" not in {p.id for p in t.replicas} for t in world.locate(other).tablets)
        assert places() == before
        with pytest.raises(ClusterError, match="no tablet server x"):
            world.master.call(MaintainServer(server="x"))
        world.master.call(MaintainServer(server="a", in_maintenance=False))
        eventually(lambda: places() == [set("bcd")] * 4)
    finally:
        world.close()


def test_servers_in_maintenance_get_new_tables_only_if_no_others_are_enough() -> None:
    world = World("abcd")
    try:
        for server in "ab":
            world.master.call(MaintainServer(server=server))
        reply = world.create(buckets=8)
        placed = [{peer.id for peer in tablet.replicas} for tablet in world.locate(reply).tablets]
        assert all({"c", "d"} < servers for servers in placed)
    finally:
        world.close()


def test_a_table_gets_more_replicas_and_fewer_also_under_the_next_master() -> None:
    world = World("abcde")
    try:
        reply = world.create(buckets=3)
        places = lambda: [{p.id for p in t.replicas} for t in world.locate(reply).tablets]  # noqa: E731
        assert world.alter("t", SetReplicas(5)).table["replicas"] == 5
        world.restart()
        eventually(lambda: places() == [set("abcde")] * 3)
        assert world.alter("t", SetReplicas(1), SetComment(None, "alone")).table["replicas"] == 1
        eventually(lambda: [len(servers) for servers in places()] == [1, 1, 1])
        with pytest.raises(ClusterError, match="7 replicas need at least 7 tablet servers: 5 are alive"):
            world.alter("t", SetReplicas(7))
        assert world.alter("t", SetReplicas(3)).table["replicas"] == 3
        eventually(lambda: [len(servers) for servers in places()] == [3, 3, 3])
    finally:
        world.close()
