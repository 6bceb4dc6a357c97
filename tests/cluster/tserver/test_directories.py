"""The disk of each tablet, under failures of disks."""

from __future__ import annotations

import pytest
from nyala.cluster.tserver.directories import ServerDirectories
from nyala.errors import CorruptionError, DiskError, OperationalError, StoreLocked
from nyala.storage.files.memory_filesystem import MemoryFileSystem


def make_tablet(fs: MemoryFileSystem, path: str) -> None:
    fs.make_directory(path)
    file = fs.create(f"{path}/replica")
    file.write(b"x")
    file.close()


def test_a_server_keeps_its_id_and_locks_its_directory() -> None:
    fs = MemoryFileSystem()
    first = ServerDirectories(fs, "/a")
    with pytest.raises(StoreLocked):
        ServerDirectories(fs, "/a")
    first.release()
    again = ServerDirectories(fs, "/a")
    assert again.id == first.id
    again.release()


def test_a_directory_of_something_else_is_refused() -> None:
    fs = MemoryFileSystem()
    fs.make_directory("/a/photos")
    with pytest.raises(OperationalError, match="photos"):
        ServerDirectories(fs, "/a")
    ServerDirectories(fs, "/b").release()
    fs.rename("/b/FORMAT", "/b/FORMAT.away")
    with pytest.raises(OperationalError, match=r"instance|FORMAT"):
        ServerDirectories(fs, "/b")


def test_tablets_go_where_there_is_least_and_are_found_again() -> None:
    fs = MemoryFileSystem()
    directories = ServerDirectories(fs, "/a", ["/d1", "/d2"])
    own, one, two = directories.all
    assert directories.place("t1", {own: (5, 1), one: (7, 1), two: (3, 9)}) is two
    assert directories.place("t2", {own: (3, 2), one: (3, 1), two: (3, 2)}) is one
    assert directories.place("t3", {own: (0, 0), one: (3, 1), two: (3, 2)}) is own
    for tablet, directory in (("t1", two), ("t2", one), ("t3", own)):
        make_tablet(fs, directory.of(tablet))
    directories.release()
    again = ServerDirectories(fs, "/a", ["/d2", "/d1"])
    assert [(found.id, found.directory.path) for found in again.existing_tablets()] == [
        ("t1", "/d2"),
        ("t2", "/d1"),
        ("t3", "/a"),
    ]
    assert not any(found.directory.error for found in again.existing_tablets())
    again.release()


def test_what_a_crash_left_in_the_wrong_place_goes() -> None:
    fs = MemoryFileSystem()
    directories = ServerDirectories(fs, "/a", ["/d1"])
    own, one = directories.all
    directories.place("never made", {own: (1, 1)})
    directories.place("moved", {own: (1, 1)})
    make_tablet(fs, own.of("moved"))
    make_tablet(fs, one.of("moved"))
    make_tablet(fs, one.of("removed but for its files"))
    assert [found.id for found in directories.existing_tablets()] == ["moved"]
    assert not fs.exists(own.of("moved"))
    assert fs.exists(one.of("moved"))
    assert not fs.exists(one.of("removed but for its files"))
    directories.release()
    again = ServerDirectories(fs, "/a", ["/d1"])
    assert [(found.id, found.directory.path) for found in again.existing_tablets()] == [("moved", "/d1")]
    again.release()


@pytest.mark.parametrize("damage", ["unreadable", "another's", "not named"])
def test_a_data_directory_that_is_out_of_use_fails_its_tablets_alone(damage: str) -> None:
    fs = MemoryFileSystem()
    directories = ServerDirectories(fs, "/a", ["/d1"])
    own, one = directories.all
    directories.place("t1", {own: (1, 1)})
    make_tablet(fs, one.of("t1"))
    directories.place("t2", {one: (1, 1)})
    make_tablet(fs, own.of("t2"))
    directories.release()
    other = ServerDirectories(fs, "/b", ["/e"])
    other.release()
    if damage == "unreadable":
        fs.remove("/d1/instance")
    elif damage == "another's":
        fs.remove("/d1/instance")
        fs.rename("/e/instance", "/d1/instance")
    again = ServerDirectories(fs, "/a", [] if damage == "not named" else ["/d1"])
    found = {tablet.id: tablet.directory for tablet in again.existing_tablets()}
    assert found["t1"].error
    assert found["t2"] is again.own
    assert not again.own.error
    assert again.place("t3", {again.own: (9, 9)}) is again.own
    assert fs.exists("/d1/tablets/t1/replica")
    again.release()


def test_a_directory_whose_disk_takes_nothing_is_put_out_of_use() -> None:
    fs = MemoryFileSystem()
    directories = ServerDirectories(fs, "/a", ["/d1"])
    own, one = directories.all
    assert directories.probe(one)
    fs.remove_tree("/d1")
    assert not directories.probe(one)
    assert one.error
    assert directories.place("t", {own: (9, 9)}) is own
    directories.fail(own, "gone, too")
    with pytest.raises(DiskError, match="gone, too"):
        directories.place("u", {})
    directories.release()


def test_damage_to_the_servers_own_directory_is_told() -> None:
    fs = MemoryFileSystem()
    ServerDirectories(fs, "/a").release()
    file = fs.create("/a/instance")
    file.write(b"nonsense")
    file.close()
    with pytest.raises(CorruptionError):
        ServerDirectories(fs, "/a")
