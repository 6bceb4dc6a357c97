from nyala.cluster.master.catalog.records import TabletRecord
from nyala.cluster.master.directory import Observed, TabletDirectory
from nyala.cluster.raft.messages import Peer
from nyala.cluster.wire.messages.methods import Heartbeat, TabletReport

from tests.master_support import configuration, report

T = "t000001-p0000"


def directory(*tablets: str) -> TabletDirectory:
    return TabletDirectory([TabletRecord(t, t.partition("-")[0], configuration("a", "b", "c")) for t in tablets], 0.0)


def beat(
    server: str,
    sequence: int,
    *reports: TabletReport,
    full: bool = False,
    removed: tuple[str, ...] = (),
    address: str = "",
    session: str = "",
) -> Heartbeat:
    return Heartbeat(
        server=Peer(server, address or f"{server}:1"),
        sequence=sequence,
        is_full=full,
        reports=reports,
        removed=removed,
        session=session,
    )


def test_a_session_begins_with_a_full_report() -> None:
    found = directory(T)
    assert not found.heartbeat(beat("a", 7, report(T)), 1.0)
    assert found.live(1.0, 60.0) == []
    assert found.heartbeat(beat("a", 8, report(T), full=True), 2.0)
    assert [server.id for server in found.live(2.0, 60.0)] == ["a"]
    assert found.live(62.0, 60.0) == []
    assert found.heartbeat(beat("a", 9), 63.0)
    assert [server.id for server in found.live(64.0, 60.0)] == ["a"]


def test_old_and_repeated_reports_are_passed_over() -> None:
    found = directory(T)
    found.heartbeat(beat("a", 5, full=True), 0.0)
    found.heartbeat(beat("a", 9, report(T, term=3)), 0.0)
    version = found.version
    assert found.heartbeat(beat("a", 9, report(T, term=2)), 0.0)
    assert not found.heartbeat(beat("a", 8, report(T, term=2)), 0.0)
    assert found.heartbeat(beat("a", 10, report(T, term=3)), 0.0)
    assert found.version == version
    assert found.tablets[T].reports["a"].term == 3


def test_a_late_full_report_replaces_nothing_newer_of_its_process() -> None:
    found = directory(T)
    found.heartbeat(beat("a", 5, report(T, term=3), full=True, session="x"), 0.0)
    assert found.heartbeat(beat("a", 4, full=True, session="x"), 0.0), "nothing is wanted of its sender"
    assert found.tablets[T].reports["a"].term == 3
    assert found.heartbeat(beat("a", 6, session="x"), 0.0)
    assert not found.heartbeat(beat("a", 7, session="y"), 0.0), "another process: its full report comes first"
    assert found.heartbeat(beat("a", 2, full=True, session="y"), 0.0), "its clock went back"
    assert found.tablets[T].reports == {}


def test_a_full_report_replaces_all() -> None:
    found = directory(T, "t000001-p0001")
    found.heartbeat(beat("a", 1, report(T, role="LEADER"), report("t000001-p0001"), full=True), 0.0)
    assert found.tablets[T].is_serving
    found.heartbeat(beat("a", 2, report("t000001-p0001"), full=True), 0.0)
    assert found.tablets[T].reports == {}
    assert found.tablets[T].leader == ""
    found.heartbeat(beat("a", 3, removed=("t000001-p0001", "unknown")), 0.0)
    assert found.servers["a"].reports == {}


def test_the_highest_committed_configuration_wins() -> None:
    seen = Observed(configuration("a", "b", "c"))
    seen = seen.reported("a", report(peers=("a", "b", "d"), index=9, commit=8))
    assert seen.configuration.index == 0
    seen = seen.reported("b", report(peers=("a", "b"), index=7, commit=7))
    assert seen.configuration == configuration("a", "b", index=7)
    seen = seen.reported("c", report(peers=("a", "b", "c"), index=0))
    assert seen.configuration.index == 7
    seen = seen.reported("a", report(peers=("a", "b", "d"), index=9, commit=9))
    assert seen.configuration == configuration("a", "b", "d", index=9)
    # A copy in progress has no configuration yet.
    assert seen.reported("d", report(state="COPYING", peers=(), index=99)).configuration.index == 9


def test_the_leader_of_the_highest_term_is_it() -> None:
    seen = Observed(configuration("a", "b", "c"))
    seen = seen.reported("b", report(term=2, leader="a"))
    assert (seen.leader, seen.term, seen.is_serving) == ("a", 2, False)
    seen = seen.reported("a", report(term=2, role="LEADER", serving=False))
    assert not seen.is_serving
    seen = seen.reported("a", report(term=2, role="LEADER", version=4))
    assert (seen.is_serving, seen.schema_version) == (True, 4)
    seen = seen.reported("c", report(term=1, role="LEADER"))
    assert seen.leader == "a"
    seen = seen.reported("c", report(term=3))
    assert (seen.leader, seen.term, seen.schema_version) == ("", 3, -1)
    seen = seen.reported("b", report(term=3, role="LEADER"))
    assert (seen.leader, seen.is_serving) == ("b", True)
    # It stepped down in its own term.
    seen = seen.reported("b", report(term=3))
    assert seen.leader == ""
    assert seen.reported("b", report(term=3, role="LEADER")).removed("b").leader == ""


def test_what_is_created_later_finds_reports_that_were_earlier() -> None:
    found = directory()
    found.heartbeat(beat("a", 1, report(T, role="LEADER"), full=True), 0.0)
    assert T not in found.tablets
    found.add(TabletRecord(T, "t000001", configuration("a", "b", "c")), 0.0)
    assert found.tablets[T].is_serving
    found.drop(T)
    assert found.servers["a"].reports.keys() == {T}


def test_an_answer_does_not_replace_a_heartbeat_that_came_meanwhile() -> None:
    found = directory(T)
    found.heartbeat(beat("a", 1, report(T), full=True), 0.0)
    before = found.known("a", T)
    found.heartbeat(beat("a", 2, report(T, term=2)), 0.0)
    found.heartbeat(beat("a", 3, report(T)), 0.0)
    found.add_requested_report("a", before, report(T, term=7))
    assert found.tablets[T].reports["a"].term == 1
    found.add_requested_report("a", found.known("a", T), report(T, term=8))
    assert found.tablets[T].reports["a"].term == 8
    found.add_requested_report("nobody", None, report(T))


def test_an_address_has_one_server() -> None:
    found = directory(T)
    found.heartbeat(beat("a", 1, full=True), 0.0)
    found.heartbeat(beat("z", 1, full=True, address="a:1"), 1.0)
    assert [server.id for server in found.live(1.0, 60.0)] == ["z"]
    assert [server.id for server in found.silent(1.0, 60.0)] == ["b", "c"], "a is nobody whom one could wait for"
    found.heartbeat(beat("a", 2, full=True, address="a:2"), 2.0)
    assert {server.id for server in found.live(2.0, 60.0)} == {"a", "z"}


def test_nobody_is_dead_before_he_could_report() -> None:
    found = TabletDirectory([TabletRecord(T, "t000001", configuration("a", "b"))], 100.0)
    assert not found.is_warm(100.5, 1.0)
    assert not found.is_warm(101.5, 1.0)
    found.heartbeat(beat("a", 1, full=True), 101.0)
    found.heartbeat(beat("b", 1, full=True), 101.0)
    assert found.is_warm(101.5, 1.0)
    assert TabletDirectory([], 100.0).is_warm(101.0, 1.0)
    late = TabletDirectory([TabletRecord(T, "t000001", configuration("a"))], 100.0)
    assert late.is_warm(103.0, 1.0)
    assert [server.id for server in late.late(103.0, 60.0)] == ["a"]
    assert late.late(160.0, 60.0) == [], "a is dead"


def test_a_pause_of_the_master_is_nobodys_silence() -> None:
    found = directory()
    found.heartbeat(beat("a", 1, full=True), 0.0)
    found.discount_pause(100.0)
    assert found.live(110.0, 60.0)
