"""Locations of servers and clients: their texts, and the replica that a read is sent to first."""

from __future__ import annotations

import pytest
from nyala.cluster.client.catalog.locations import Location, Locations
from nyala.cluster.client.catalog.masters import Masters
from nyala.cluster.client.options import client_options
from nyala.cluster.locations import check_location, shared_depth
from nyala.cluster.raft.messages import Peer
from nyala.errors import InterfaceError

PEERS = tuple(Peer(id, f"{id}:1") for id in "abc")
PLACES = {"a:1": "/dc1/rack1", "b:1": "/dc1/rack2", "c:1": "/dc2/rack1"}


def order(selection: str, own: str, snapshot: int | None = 1, leader: str = "c:1") -> list[str]:
    known = Locations(Masters({}, ["m:1"]))  # type: ignore[arg-type]  # no master is called
    return known.for_reading(Location("t", PEERS, leader, PLACES), selection, snapshot, "here", own)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("/dc1/rack2", ["b:1", "a:1", "c:1"]),
        ("/dc1/rack1", ["a:1", "b:1", "c:1"]),
        ("/dc2/rack9", ["c:1"]),
    ],
)
def test_reads_of_the_past_go_to_the_closest_location_first(own: str, expected: list[str]) -> None:
    for selection in ("closest", "auto"):
        assert order(selection, own)[: len(expected)] == expected


def test_reads_of_the_latest_go_to_the_leader_wherever_it_is() -> None:
    assert order("auto", "/dc1/rack1", snapshot=None) == ["c:1", "a:1", "b:1"]
    assert order("leader", "/dc1/rack1") == ["c:1", "a:1", "b:1"]


def test_without_a_location_all_replicas_are_used() -> None:
    assert len({tuple(order("closest", "")) for _ in range(100)}) > 1


@pytest.mark.parametrize("text", ["rack1", "/", "/dc1/", "//rack", "/dc 1", "/dc1/räck"])
def test_invalid_locations_are_refused(text: str) -> None:
    with pytest.raises(InterfaceError, match="expected names after slashes"):
        check_location(text)
    with pytest.raises(InterfaceError, match="expected names after slashes"):
        client_options(location=text)


def test_locations_share_whole_names() -> None:
    assert check_location("") == ""
    assert check_location("/dc-1/rack_2.b") == "/dc-1/rack_2.b"
    assert shared_depth("/a/b/c", "/a/b") == 2
    assert shared_depth("/a/b", "/a/bb") == 1
    assert shared_depth("", "/a") == 0
