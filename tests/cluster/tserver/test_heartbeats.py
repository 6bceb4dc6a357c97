"""Reports to masters: everything once they lead, then the changes, whatever messages are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from nyala.cluster.raft.messages import Configuration, Peer
from nyala.cluster.tserver.heartbeats import Heartbeats
from nyala.cluster.wire.messages.methods import Heartbeat, HeartbeatReply, TabletReport
from nyala.errors import ServerUnavailable

from tests.fake_tservers import eventually

SERVER = Peer("s1", "127.0.0.1:1")


class Master:
    """Records the reports of each tablet, as a master does; `Master.call` replaces a channel's."""

    def __init__(self) -> None:
        self.is_leader = False
        self.is_dead = False
        self.loses_answers = False
        self.leader = ""
        self.masters: tuple[str, ...] = ()
        self.knows: dict[str, int] | None = None
        self.full_reports = 0
        self.heard: list[Heartbeat] = []
        self.changed = threading.Condition()

    def call(self, request: Heartbeat, timeout: float) -> HeartbeatReply:
        with self.changed:
            if self.is_dead:
                raise ServerUnavailable("the master is dead")
            assert not self.heard or request.sequence > self.heard[-1].sequence
            self.heard.append(request)
            self.changed.notify_all()
            if not self.is_leader:
                assert not request.reports
                return HeartbeatReply(is_leader=False, leader=self.leader)
            if request.is_full:
                self.full_reports += 1
                self.knows = {}
            if self.knows is not None:
                self.knows.update((report.tablet_id, report.term) for report in request.reports)
                for tablet_id in request.removed:
                    self.knows.pop(tablet_id, None)
            if self.loses_answers:
                raise ServerUnavailable("the answer was lost")
            wants_full = self.knows is None
            return HeartbeatReply(
                is_leader=True, leader=self.leader, wants_full_report=wants_full, masters=self.masters
            )

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 30)


class Cluster:
    """Masters, and a server's tablets with a term each."""

    def __init__(self, masters: int) -> None:
        self.masters = {f"m{n}": Master() for n in range(masters)}
        self.tablets: dict[str, int] = {f"t{n}": 1 for n in range(5)}
        self.noted: list[tuple[str, ...]] = []
        channels: Any = self
        self.heartbeats = Heartbeats(
            list(self.masters), channels, lambda: SERVER, self.reports, 0.05, note_masters=self.noted.append
        )

    def lead(self, name: str, masters: tuple[str, ...], address: str = "") -> None:
        """Has one master lead, alone, and list these."""
        for other in self.masters.values():
            other.is_leader, other.leader = False, address or name
        self.masters[name].masters, self.masters[name].is_leader = masters, True

    def addresses(self) -> set[str]:
        return {reporter.address for reporter in self.heartbeats.reporters}

    def get(self, address: str) -> Master:
        return self.masters[address]

    def reports(self, ids: Iterable[str] | None) -> list[TabletReport]:
        wanted = self.tablets if ids is None else [id for id in ids if id in self.tablets]
        return [
            TabletReport(
                tablet_id=id,
                table_id="t",
                state="RUNNING",
                role="FOLLOWER",
                term=self.tablets[id],
                leader="",
                configuration=Configuration(()),
                schema_version=0,
            )
            for id in sorted(wanted)
        ]

    def change(self, id: str, term: int | None) -> None:
        if term is None:
            del self.tablets[id]
        else:
            self.tablets[id] = term
        self.heartbeats.note(id)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(3)
    made.heartbeats.start()
    yield made
    made.heartbeats.stop()


def test_the_leader_alone_hears_of_tablets_first_all_then_changes(cluster: Cluster) -> None:
    first, second, _ = cluster.masters.values()
    second.wait_for(lambda: len(second.heard) > 2)
    first.is_leader = True
    first.wait_for(lambda: first.knows == cluster.tablets)
    cluster.change("t1", 2)
    cluster.change("t7", 1)
    cluster.change("t2", None)
    first.wait_for(lambda: first.knows == {"t0": 1, "t1": 2, "t3": 1, "t4": 1, "t7": 1})
    assert first.full_reports == 1
    assert second.knows is None


def test_a_new_leader_hears_everything(cluster: Cluster) -> None:
    first, second, _ = cluster.masters.values()
    first.is_leader = True
    first.wait_for(lambda: first.knows == cluster.tablets)
    first.is_dead = True
    cluster.change("t1", 5)
    second.is_leader = True
    second.wait_for(lambda: second.knows == cluster.tablets)
    assert second.full_reports == 1


def test_what_got_lost_is_told_again(cluster: Cluster) -> None:
    first = next(iter(cluster.masters.values()))
    first.is_leader = True
    first.wait_for(lambda: first.knows == cluster.tablets)
    first.loses_answers = True
    heard = len(first.heard)
    cluster.change("t1", 6)
    first.wait_for(lambda: len(first.heard) > heard + 1)
    first.knows = None
    first.loses_answers = False
    first.wait_for(lambda: first.knows == cluster.tablets)


def test_changes_are_gathered_a_little(cluster: Cluster) -> None:
    first = next(iter(cluster.masters.values()))
    first.is_leader = True
    first.wait_for(lambda: first.knows == cluster.tablets)
    heard, began = len(first.heard), time.monotonic()
    for term in range(2, 2000):
        cluster.change("t1", term)
    first.wait_for(lambda: first.knows == cluster.tablets)
    assert len(first.heard) - heard <= (time.monotonic() - began) / 0.05 + 2


# ---- masters that change ---------------------------------------------------------------------------------------------


def test_masters_are_followed_one_after_another(cluster: Cluster) -> None:
    for number in range(3, 6):
        cluster.masters[f"m{number}"] = Master()
        now = tuple(f"m{n}" for n in range(number - 2, number + 1))
        cluster.masters[f"m{number - 3}"].is_dead = True
        cluster.lead(now[0], now)
        eventually(lambda now=now: cluster.addresses() == set(now))
    leader = cluster.masters["m3"]
    leader.wait_for(lambda: leader.knows == cluster.tablets)
    assert cluster.noted == [("m1", "m2", "m3"), ("m2", "m3", "m4"), ("m3", "m4", "m5")]


def test_a_follower_names_a_leader_that_was_not_known(cluster: Cluster) -> None:
    cluster.masters["m9"] = Master()
    for name in ("m1", "m2"):
        cluster.masters[name].is_dead = True
    cluster.lead("m9", ("m0", "m9"))
    eventually(lambda: cluster.addresses() == {"m0", "m9"})
    cluster.masters["m9"].wait_for(lambda: cluster.masters["m9"].knows == cluster.tablets)


def test_no_master_is_dropped_while_others_do_not_respond(cluster: Cluster) -> None:
    cluster.masters["m9"] = Master()
    cluster.masters["m9"].is_dead = True
    cluster.lead("m0", ("m0", "m9"))
    eventually(lambda: "m9" in cluster.addresses())
    heard = len(cluster.masters["m0"].heard)
    cluster.masters["m0"].wait_for(lambda: len(cluster.masters["m0"].heard) > heard + 3)
    assert cluster.addresses() == {"m0", "m1", "m2", "m9"}
    cluster.masters["m9"].is_dead = False
    eventually(lambda: cluster.addresses() == {"m0", "m9"})


def test_addresses_that_only_masters_can_reach_replace_no_other(cluster: Cluster) -> None:
    inner = ("i0", "i1", "i2")
    for name in inner:
        cluster.masters[name] = Master()
        cluster.masters[name].is_dead = True
    for leader in (0, 1):
        cluster.lead(f"m{leader}", inner, address=f"i{leader}")
        first = cluster.masters[f"m{leader}"]
        first.wait_for(lambda first=first: first.knows == cluster.tablets)
        heard = len(first.heard)
        first.wait_for(lambda first=first, heard=heard: len(first.heard) > heard + 3)
        assert {"m0", "m1", "m2"} <= cluster.addresses()
