"""Replicas of a server that does not run: listed and deleted by `nyala replica`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from nyala.__main__ import main
from nyala.cluster.wire.messages.methods import WorkOnTablet
from tserver_support import Servers, rows, wait_for

ID = "t1-p0"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    """Three servers with 1,000 rows, a part of them flushed; server 2 follows and is stopped."""
    with Servers(tmp_path, 3) as servers:
        servers.create()
        servers.write(ID, rows(range(900)))
        servers.call_leader(ID, WorkOnTablet(tablet_id=ID, work="flush"))
        servers.write(ID, rows(range(900, 1000)))
        if servers.leader(ID) == 2:
            servers.running[2].tablets.hand_over(float("inf"))
        wait_for(lambda: servers.keys(2, ID) == list(range(1000)))
        servers.stop(2)
        yield servers


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["replica", *map(str, words)])
    told = capsys.readouterr()
    return status, told.out + told.err


@pytest.mark.slow
def test_a_deleted_replica_is_copied_when_the_server_runs_again(
    three: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    home = three.path / "s2"
    status, told = run(capsys, "list", home, "--json")
    (listed,) = json.loads(told)
    assert (status, listed["tablet_id"], listed["table"], listed["state"]) == (0, ID, "t", "READY")
    assert len(listed["peers"]) == 3
    assert listed["bytes"] == sum(path.stat().st_size for path in (home / "tablets" / ID).rglob("*") if path.is_file())
    status, told = run(capsys, "delete", home, ID)
    assert status == 1 and "DANGER" in told and "nothing was changed" in told
    assert run(capsys, "delete", home, ID, "--accept-data-loss")[0] == 0
    assert "TOMBSTONED" in run(capsys, "list", home)[1]
    assert not list((home / "tablets" / ID).glob("rowsets/*"))
    status, told = run(capsys, "delete", home, ID, "--accept-data-loss")
    assert status == 1 and "is a tombstone" in told
    three.write(ID, rows([1000]))
    (address,) = {peer["address"] for peer in listed["peers"]} - {one.address for one in three.running.values()}
    three.start(2, bind=address)
    wait_for(lambda: three.keys(2, ID) == list(range(1001)))


@pytest.mark.slow
def test_mistakes_are_refused(three: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, told = run(capsys, "list", three.path / "s0")
    assert status == 1 and "has one opener at a time" in told
    status, told = run(capsys, "list", tmp_path / "none")
    assert status == 1 and "holds no tablet server" in told
    assert not (tmp_path / "none").exists()
    home = three.path / "s2"
    status, told = run(capsys, "delete", home, "t1-p1", "--accept-data-loss")
    assert status == 1 and "no replica of tablet t1-p1" in told


@pytest.mark.slow
def test_a_replica_that_cannot_be_read_is_listed(three: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    file = three.path / "s2" / "tablets" / ID / "consensus"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    status, told = run(capsys, "list", three.path / "s2")
    assert status == 1
    assert "FAILED" in told and str(file) in told
    status, told = run(capsys, "delete", three.path / "s2", ID, "--accept-data-loss")
    assert status == 1 and str(file) in told, "its vote cannot be kept"
