"""Findings of ksck for every kind of fault of a cluster."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace as replace_struct
from nyala.cluster.admin.ksck import Health, describe, ksck
from nyala.cluster.admin.view import ClusterView, ServerView, TabletView, look
from nyala.cluster.raft.messages import Configuration, Peer, PeerRole
from nyala.cluster.wire.messages.methods import ChecksumReply, GetStatus, NamedServer, ServerStatus, TabletReport
from nyala.errors import CorruptionError, DeadlineExceeded, DiskError, NotTheLeader
from nyala.model.clock import HybridClock

PEERS = tuple(Peer(id, f"{id}:1") for id in "abc")


def status(id: str, is_leader: bool = False) -> ServerStatus:
    return ServerStatus(
        id=id, kind="tserver", address=f"{id}:1", version="1", pid=1, started=0.0, clock=1, is_leader=is_leader
    )


def report(leads: bool = False, state: str = "RUNNING", term: int = 3, index: int = 0, error: str = "") -> TabletReport:
    return TabletReport(
        tablet_id="p0",
        table_id="t1",
        state=state,
        role="LEADER" if leads else "FOLLOWER",
        term=term,
        leader="a",
        configuration=Configuration(PEERS, index),
        schema_version=1,
        is_serving=leads,
        error=error,
    )


def view(reports: dict[str, TabletReport], peers: tuple[Peer, ...] = PEERS) -> ClusterView:
    servers = tuple(
        NamedServer(id=id, address=f"{id}:1", state="ALIVE", seconds_silent=0.0, replicas=1, leaders=0) for id in "abc"
    )
    return ClusterView(
        masters=(ServerView("m:1", status("m", is_leader=True)),),
        tservers=servers,
        answers={id: ServerView(f"{id}:1", status(id)) for id in "abc"},
        tablets=(TabletView("p0", "t", "a", peers, reports, wanted=3),),
        tables=("t",),
        quotas={},
        clock=1,
    )


WHOLE = {"a": report(leads=True), "b": report(), "c": report()}
LEARNER = (*PEERS, Peer("d", "d:1", PeerRole.PRE_VOTER))
FOUR = (*PEERS, Peer("d", "d:1"))


@pytest.mark.parametrize(
    ("reports", "peers", "health", "reason"),
    [
        (WHOLE, PEERS, Health.HEALTHY, ""),
        ({"a": report(leads=True), "b": report()}, PEERS, Health.UNDER_REPLICATED, "the replica at c:1 is missing"),
        ({"a": report(leads=True), "b": report()}, PEERS[:2], Health.UNDER_REPLICATED, "2 replicas with a vote"),
        (WHOLE | {"c": report(state="FAILED", error="EIO")}, PEERS, Health.UNDER_REPLICATED, "is FAILED: EIO"),
        (WHOLE | {"c": report(error="checksum")}, PEERS, Health.UNDER_REPLICATED, "c:1 is damaged: checksum"),
        (WHOLE | {"c": report(state="COPYING")}, PEERS, Health.RECOVERING, "is COPYING"),
        (WHOLE | {"d": report()}, LEARNER, Health.RECOVERING, "a change of its replicas"),
        (WHOLE | {"d": report()}, FOUR, Health.RECOVERING, "4 replicas with a vote, and its table needs only 3"),
        (WHOLE | {"b": report(index=7)}, PEERS, Health.RECOVERING, "a change of its replicas"),
        ({"a": report(), "b": report(), "c": report()}, PEERS, Health.UNAVAILABLE, "no replica leads"),
        ({"a": report(leads=True)}, PEERS, Health.UNAVAILABLE, "b:1 is missing"),
        (WHOLE | {"b": report(leads=True)}, PEERS, Health.CONFLICT, "2 replicas lead in one term"),
        # it has not received a message of its successor yet
        (WHOLE | {"b": report(leads=True, term=2)}, PEERS, Health.HEALTHY, ""),
    ],
)
def test_tablets(reports: dict[str, TabletReport], peers: tuple[Peer, ...], health: Health, reason: str) -> None:
    found = ksck(view(reports, peers))
    assert found.health is health
    assert reason in describe(found)
    assert found.is_clean is (health is Health.HEALTHY)


def test_servers() -> None:
    whole = view(WHOLE)
    silent = replace(whole, answers=whole.answers | {"c": ServerView("c:1", None, "refused")})
    servers = [replace_struct(s, state="DEAD", seconds_silent=99.0) if s.id == "c" else s for s in silent.tservers]
    dead = replace(silent, tservers=tuple(servers))
    two = replace(whole, masters=(*whole.masters, ServerView("n:1", status("n", is_leader=True))))
    none = replace(whole, masters=(ServerView("m:1", None, "refused"),))
    for ill, told in (
        (silent, "tablet server c:1 does not answer, although the master heard of it 0 s ago; refused"),
        (dead, "tablet server c:1 does not answer, and counts as dead: the master heard of it 99 s ago; refused"),
        (two, "2 masters claim to lead: m:1, n:1"),
        (none, "master m:1 does not answer: refused"),
    ):
        found = ksck(ill)
        assert told in found.servers
        assert not found.is_clean
        assert describe(found).endswith("FAILED")


def test_a_transaction_without_an_outcome_is_reported_at_the_leader() -> None:
    for leads, seconds, is_reported in ((True, 40.0, True), (True, 2.0, False), (False, 40.0, False)):
        reports = WHOLE | {
            "b" if not leads else "a": replace_struct(report(leads), prepared=2, prepared_seconds=seconds)
        }
        found = ksck(view(reports))
        assert found.is_clean is not is_reported
        assert ("rows of 2 transactions without an outcome, the oldest for 40 s" in describe(found)) is is_reported


class Answers:
    """Channels to replicas that reply to a `ChecksumTablet` with these, or raise them."""

    def __init__(self, answers: dict[str, ChecksumReply | Exception]):
        self._answers = answers

    def get(self, address: str) -> Any:
        answer = self._answers[address]

        def call(request: Any, timeout: float) -> ChecksumReply:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return SimpleNamespace(call=call)


def test_checksums_go_on_past_replicas_that_cannot_be_read() -> None:
    summed = ChecksumReply(rows=7, checksum="00000000000000ff")
    damaged = CorruptionError("checksum 1 instead of 2", "/b/rowsets/x.col", "page 0")
    found = ksck(view(WHOLE), cast(Any, Answers({"a:1": summed, "b:1": damaged, "c:1": DiskError("cannot read /c/y")})))
    assert found.health is Health.UNDER_REPLICATED
    assert found.checksums == {"t": (7, "00000000000000ff")}
    assert found.to_dict()["tablets"][0]["reasons"] == (
        "the replica at b:1: CorruptionError: /b/rowsets/x.col: page 0: checksum 1 instead of 2",
        "the replica at c:1: DiskError: cannot read /c/y",
    )


@pytest.mark.parametrize("leaderless", [True, False])
def test_masters_of_which_none_leads_are_checked(leaderless: bool) -> None:
    full = status("m")
    full.details["full"] = "disk full: /m"

    def call(request: Any, timeout: float = 1.0) -> ServerStatus:
        if isinstance(request, GetStatus):
            return full
        raise NotTheLeader("no master leads at the moment")

    channels = cast(Any, SimpleNamespace(get=lambda address: SimpleNamespace(call=call)))
    if not leaderless:
        with pytest.raises(DeadlineExceeded, match="no master leads at the moment"):
            look(channels, ["m:1"], HybridClock(), 0.2)
        return
    found = ksck(look(channels, ["m:1"], HybridClock(), 0.2, leaderless=True))
    assert found.servers == (
        "master m:1 accepts no changes of the catalog: disk full: /m",
        "no master leads: tables can be read and written, but not changed",
        "tablet servers and tablets were not checked: a leading master lists them",
    )
    assert not found.is_clean and [server.state for server in found.listed] == ["FOLLOWER"]


def test_an_empty_cluster_lists_its_servers() -> None:
    empty = replace(view(WHOLE), tablets=(), tables=())
    told = describe(ksck(empty)).splitlines()
    assert [line.split() for line in told] == [
        ["master", "m:1", "LEADER"],
        *(["tserver", f"{id}:1", "ALIVE", "1", "replicas,", "0", "lead"] for id in "abc"),
        ["0", "tablets"],
        ["OK"],
    ]
    silent = replace(empty, answers=empty.answers | {"c": ServerView("c:1", None, "refused")})
    listed = ksck(silent).to_dict()["listed"]
    expected = {"kind": "tserver", "address": "c:1", "state": "SILENT", "replicas": 1, "leaders": 0, "location": ""}
    assert listed[3] == expected
