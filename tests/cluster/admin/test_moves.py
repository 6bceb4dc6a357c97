"""Moving leaders and emptying servers: refusals and their messages, over a cluster of a few records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from nyala.cluster.admin import one_server
from nyala.cluster.admin.leaving import Leaving
from nyala.cluster.admin.masters import ask_master
from nyala.cluster.admin.moves import ReplicaMover
from nyala.cluster.raft.messages import Peer, PeerRole
from nyala.cluster.wire.messages.maintenance_methods import LeaveCluster
from nyala.cluster.wire.messages.methods import (
    CatalogReply,
    Done,
    GetCatalog,
    ListServers,
    LocateTablets,
    LocationsReply,
    NamedServer,
    Reply,
    Request,
    ServersReply,
    StepDown,
    TabletLocation,
)
from nyala.cluster.wire.messages.plain import entry_to_plain
from nyala.errors import (
    ConfigurationRefused,
    ConnectionRefused,
    DeadlineExceeded,
    InterfaceError,
    NotTheLeader,
    ServerUnavailable,
)
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition
from nyala.model.types import INT
from nyala.storage.database import Database

IDS = {name: f"{name}0000" for name in "abcd"}
LOCAL = {f"tserver-{number}": f"{name}:1" for number, name in enumerate("abcd", 1)}


@pytest.fixture(scope="module")
def entry() -> Iterator[Any]:
    """A table of two tablets."""
    schema = Schema((ColumnSchema("k", INT, False),), 1)
    with Database(":memory:", background=False) as database:
        database.create_table(TableDefinition("t", schema, PartitionSchema((HashRule(("k",), 2),), None)))
        yield entry_to_plain(database._catalog.current.entries["t"])


@dataclass
class Cluster:
    """Records with channels. `on_step_down` is a leader's reaction to a request to step down."""

    entry: Any
    servers: str = "abc"
    states: dict[str, str] = field(default_factory=dict)
    voters: str = "abc"
    learners: str = ""
    leader: str = "a"
    on_step_down: Callable[[StepDown], Any] = lambda request: Done()
    replicas: list[int] = field(default_factory=lambda: [2])
    """Of server a; the last stays."""
    asked: list[Request] = field(default_factory=list)

    @property
    def first(self) -> str:
        found: str = self.entry["tablets"][0]
        return found

    def get(self, address: str) -> Any:
        cluster = self

        class Channel:
            def call(self, request: Request, timeout: float = 30.0) -> Any:
                return cluster.answer(request)

        return Channel()

    def answer(self, request: Request) -> Any:
        self.asked.append(request)
        match request:
            case ListServers():
                return ServersReply(tservers=tuple(self._server(name) for name in self.servers), masters=())
            case GetCatalog():
                return CatalogReply(version=1, cluster_id="c", tables=({**self.entry, "replicas": 3},), views=())
            case LocateTablets():
                there = self.entry["tablets"]
                wanted = there if request.table_id is not None else [t for t in request.tablet_ids if t in there]
                return LocationsReply(tablets=tuple(self._tablet(tablet_id) for tablet_id in wanted))
            case StepDown():
                return self.on_step_down(request)
            case LeaveCluster():
                return Done()
        raise AssertionError(request)

    def _server(self, name: str) -> NamedServer:
        count = 0
        if name == "a":
            count = self.replicas.pop(0) if len(self.replicas) > 1 else self.replicas[0]
        state = self.states.get(name, "ALIVE")
        return NamedServer(
            id=IDS[name], address=f"{name}:1", state=state, seconds_silent=0.0, replicas=count, leaders=0
        )

    def _tablet(self, tablet_id: str) -> TabletLocation:
        peers = [Peer(IDS[name], f"{name}:1") for name in self.voters]
        peers += [Peer(IDS[name], f"{name}:1", PeerRole.PRE_VOTER) for name in self.learners]
        return TabletLocation(tablet_id=tablet_id, replicas=tuple(peers), leader=IDS.get(self.leader, ""), term=1)

    def mover(self) -> ReplicaMover:
        return ReplicaMover(self, ["m:1"], LOCAL)  # type: ignore[arg-type]

    def leaving(self, server: str) -> Leaving:
        return Leaving(self, ["m:1"], server, LOCAL)  # type: ignore[arg-type]

    def count(self, kind: type[Request]) -> int:
        return sum(isinstance(request, kind) for request in self.asked)


# ---- leaders


def test_the_new_leader_is_named(entry: Any) -> None:
    cluster = Cluster(entry)

    def step_down(request: StepDown) -> Done:
        cluster.leader = "b"
        return Done()

    cluster.on_step_down = step_down
    assert cluster.mover().step_down(cluster.first, "tserver-2") == (cluster.first, Peer(IDS["b"], "b:1"))
    assert cluster.mover().step_down(cluster.first, "b:1")[1].address == "b:1", "it leads already"


@pytest.mark.parametrize("leader", ["a", ""])
def test_one_voter_is_refused_without_asking_it(entry: Any, leader: str) -> None:
    cluster = Cluster(entry, voters="a", leader=leader)
    with pytest.raises(InterfaceError, match=r"has one voter, tserver-1 at a:1: no other replica can lead it$"):
        cluster.mover().step_down(cluster.first)
    assert not cluster.count(StepDown)


def test_who_has_no_vote_cannot_lead(entry: Any) -> None:
    with pytest.raises(InterfaceError, match=r"the replica of .* at tserver-4 at d:1 has no vote yet"):
        (cluster := Cluster(entry, learners="d")).mover().step_down(cluster.first, "tserver-4")


def test_the_last_refusal_is_in_the_error_with_addresses(entry: Any) -> None:
    def refuse(request: StepDown) -> Done:
        raise ConfigurationRefused(f"leadership is already being transferred to {IDS['b']}")

    cluster = Cluster(entry, on_step_down=refuse)
    with pytest.raises(
        DeadlineExceeded, match=r"until another replica leads tablet .* already being transferred to tserver-2 at b:1$"
    ):
        cluster.mover().step_down(cluster.first, seconds=0.01)
    cluster.leader = ""
    with pytest.raises(
        DeadlineExceeded, match=r"until the replica at tserver-3 at c:1 leads .* error: no replica leads$"
    ):
        cluster.mover().step_down(cluster.first, "c:1", seconds=0.01)


# ---- names


def test_mistakes_list_what_there_is(entry: Any) -> None:
    cluster = Cluster(entry)
    mover, first = cluster.mover(), cluster.first
    with pytest.raises(InterfaceError, match=r"no replica at x; there are tserver-1 at a:1, .*tserver-3 at c:1$"):
        mover.step_down(first, "x")
    with pytest.raises(InterfaceError, match=r"no tablet server nobody; there are tserver-1 at a:1"):
        mover.move(first, "tserver-1", "nobody")
    with pytest.raises(InterfaceError, match=f"^2 tablets begin with t0: {first}, "):
        mover.step_down("t0")
    with pytest.raises(InterfaceError, match=f"no tablet x; there are {first}, "):
        mover.step_down("x")
    with pytest.raises(InterfaceError, match=r"tserver-2 at b:1 has a replica of tablet .* already$"):
        mover.move(first, IDS["a"], "b:1")


def test_a_tablet_is_known_by_its_beginning(entry: Any) -> None:
    cluster = Cluster({**entry, "tablets": ["t000001-p0000", "t000002-p0000"]}, leader="b")
    assert cluster.mover().step_down("t000002", "b:1")[0] == "t000002-p0000"
    many = Cluster({**entry, "tablets": [f"t{number}" for number in range(20, 32)]})
    with pytest.raises(InterfaceError, match=r"^12 tablets begin with t: t20, .*, t29, \.\.\.$"):
        many.mover().step_down("t")


# ---- leaving


def test_a_server_that_others_cannot_replace_does_not_leave(entry: Any) -> None:
    cluster = Cluster(entry, servers="abcd", states={"d": "DEAD"})
    told = (
        r"tserver-1 at a:1 cannot be emptied: without it, 2 .* remain \(tserver-4 at d:1 is DEAD\), .* t \(3 replicas\)"
    )
    with pytest.raises(InterfaceError, match=told):
        cluster.leaving("tserver-1").begin()
    assert not cluster.count(LeaveCluster)
    cluster.states = {}
    cluster.leaving("tserver-1").begin(has_to_end=True)
    assert cluster.count(LeaveCluster) == 1


def test_a_dead_server_may_be_said_to_have_left_unless_it_has_to_be_empty(entry: Any) -> None:
    cluster = Cluster(entry, states={"a": "DEAD"})
    cluster.leaving("a:1").begin()
    assert cluster.count(LeaveCluster) == 1
    with pytest.raises(InterfaceError, match=r"without it, 2 tablet servers remain, too few"):
        cluster.leaving("a:1").begin(has_to_end=True)


def test_waiting_tells_what_is_left(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_server, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(one_server, "TELL_SECONDS", 0.0)
    told: list[str] = []
    cluster = Cluster(entry, servers="abcd", replicas=[9, 2, 1, 0])
    cluster.leaving("tserver-1").wait(told.append)
    assert told == [f"waiting for tserver-1 at a:1: {left} left" for left in ("2 replicas", "1 replica")]
    first, second = entry["tablets"]
    with pytest.raises(DeadlineExceeded, match=f"still there: 2 replicas: {first} of t, {second} of t$"):
        Cluster(entry, servers="abcd").leaving("tserver-1").wait(told.append, 0.0)


# ---- masters

LED = ServersReply(tservers=(), masters=())


class Answers:
    """Channels to masters, each with its reply or error; `asked` are the addresses in the order of calls."""

    def __init__(self, **answers: Reply | Exception):
        self.answers = answers
        self.asked: list[str] = []

    def get(self, address: str) -> Any:
        return SimpleNamespace(call=lambda request, timeout: self.answer(address))

    def answer(self, address: str) -> Reply:
        self.asked.append(address)
        answer = self.answers[address]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


def test_masters_that_are_not_there_are_given_up() -> None:
    nobody = Answers(m=ConnectionRefused("m cannot be reached"), n=ConnectionRefused("n cannot be reached"))
    with pytest.raises(DeadlineExceeded, match=r"^ListServers .from m, n. was abandoned after 0 .* n cannot be"):
        ask_master(nobody, ["m", "n"], ListServers(), 3600.0, patience=0.0)
    assert nobody.asked == ["m", "n"]


def test_the_master_that_leads_is_asked_next() -> None:
    masters = Answers(m=NotTheLeader("o leads", leader="o"), n=ConnectionRefused("n cannot be reached"), o=LED)
    assert ask_master(masters, ["m", "n", "o"], ListServers()) == LED
    assert masters.asked == ["m", "o"]


def test_a_refusal_of_the_leading_master_is_the_answer() -> None:
    masters = Answers(m=ServerUnavailable("m stops"), n=ConfigurationRefused("no such server"))
    with pytest.raises(ConfigurationRefused):
        ask_master(masters, ["m", "n"], LeaveCluster(server="x"))
    assert masters.asked == ["m", "n"]
