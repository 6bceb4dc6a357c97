"""Backups in directories, in an S3 bucket, and in a file system of fsspec: the same chain is read from each."""

import io
import json
import logging
import sys
from contextlib import redirect_stderr, redirect_stdout

import fsspec
import nyala
import pytest
from nyala.__main__ import main
from nyala.backup import manifest
from nyala.backup.backup import backup, verify
from nyala.backup.places import CLAIM, Place
from nyala.backup.restore import restore
from nyala.errors import CorruptionError, DiskError, InterfaceError, OperationalError, StoreLocked
from pyarrow import fs


@pytest.fixture(scope="module")
def s3():
    """The options of a URL of a local server that speaks S3's protocol."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret"), ("DEFAULT_REGION", "us-east-1")):
            patched.setenv(f"AWS_{name}", value)
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        options = f"scheme=http&endpoint_override=127.0.0.1:{server.get_host_and_port()[1]}"
        filesystem, _ = fs.FileSystem.from_uri(f"s3://company?{options}&allow_bucket_creation=true")
        filesystem.create_dir("company")
        yield options
        server.stop()


@pytest.fixture(params=["directory", "fsspec", pytest.param("s3", marks=pytest.mark.slow)])
def saved(request, tmp_path):
    """The URL or path of a directory of backups that does not exist yet."""
    if request.param == "directory":
        return str(tmp_path / "saved")
    name = request.node.name.partition("[")[0]
    if request.param == "fsspec":
        fsspec.filesystem("memory").store.clear()
        return f"memory://company/{name}"
    return f"s3://company/{name}?{request.getfixturevalue('s3')}"


@pytest.fixture
def store(tmp_path):
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
        yield tmp_path / "store", connection


def test_a_chain_is_saved_verified_and_restored(saved, store, tmp_path):
    directory, connection = store
    first = backup(directory, saved)
    connection.execute("DELETE FROM t WHERE k = 1; CREATE TABLE u (k INT PRIMARY KEY)")
    second = backup(directory, saved)
    assert [b.number for b in manifest.read_all(Place.of(saved))] == [1, 2] and second.backup.parent == first.backup.id
    assert verify(saved)[1] == []
    restored = restore(saved, tmp_path / "other")
    assert restored.tables == {"t": 1, "u": 0} and restored.backups == (1, 2)
    assert restore(saved, tmp_path / "older", at=first.backup.snapshot).tables == {"t": 2}
    with nyala.connect(tmp_path / "other") as other:
        assert other.execute("SELECT * FROM t").fetchall() == [(2, 2)]


def test_an_altered_or_missing_file_is_found(saved, store, tmp_path):
    directory, connection = store
    connection.execute("CREATE TABLE u (k INT PRIMARY KEY); INSERT INTO u VALUES (1)")
    backup(directory, saved)
    place = Place.of(saved)
    (made,) = manifest.read_all(place)
    one, other = (f"{made.folder}/{file.path}" for file in made.files)
    with place.open(one) as file:
        content = bytearray(file.read())
    content[len(content) // 2] ^= 1
    place.write(one, bytes(content))
    place.filesystem.delete_file(f"{place.root}/{other}")
    faults = verify(saved)[1]
    assert "checksum" in faults[0] and faults[1] == f"{place.path(other)} is missing"
    with pytest.raises(CorruptionError, match=r"checksum.*; 1 more of 2 files"):
        restore(saved, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_only_one_backup_at_a_time_writes_a_folder(saved, store, monkeypatch):
    directory, _ = store
    place = Place.of(saved)
    if place.is_local:
        place.make()
        with place.locked(), pytest.raises(StoreLocked, match="another backup is being written"):
            backup(directory, saved)
    else:
        # Another writer has chosen the same number, and its claim is older or younger: both are refused.
        place.write(f"000001/{CLAIM}of-another", b"")
        monkeypatch.setattr(manifest, "backup_folders", lambda _: [])
        with pytest.raises(StoreLocked, match="another backup is being written"):
            backup(directory, saved)
        assert place.names("000001") == [f"{CLAIM}of-another"]
        monkeypatch.undo()
    assert backup(directory, saved).backup.number == (1 if place.is_local else 2)


def test_a_write_that_fails_leaves_no_file(saved):
    place = Place.of(saved)
    with pytest.raises(ZeroDivisionError), place.create("a/b") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert not place.exists("a/b")
    with place.create("a/b") as file:
        file.write(b"whole")
    assert place.read("a/b") == b"whole" and place.size("a/b") == 5 and place.names("a")[0] == "b"
    with pytest.raises(DiskError, match=r"cannot read .*a/c"):
        place.read("a/c")


def test_wrong_places_and_stores_are_named(tmp_path, monkeypatch):
    with pytest.raises(InterfaceError, match="nosuch://"):
        Place.of("nosuch://host/path")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InterfaceError, match="pip install fsspec"):
        Place.of("nosuch://host/path")
    for target, reason in ((tmp_path, "no nyala store in it"), (tmp_path / "no", "no such directory")):
        with pytest.raises(OperationalError, match=reason):
            backup(target, tmp_path / "saved")
    with pytest.raises(InterfaceError, match=":memory:"):
        backup(":memory:", tmp_path / "saved")
    with pytest.raises(OperationalError, match="there is no directory"):
        verify(tmp_path / "saved")
    assert not (tmp_path / "saved").exists() and not (tmp_path / "FORMAT").exists()


# ---- the commands ----------------------------------------------------------------------------------------------------


def run(*arguments):
    """The exit code of `nyala`, its output, and its messages."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), errors.getvalue()


def test_the_commands_save_list_verify_and_restore(store, tmp_path):
    directory, connection = store
    saved = tmp_path / "saved"
    code, out, errors = run("backup", directory, saved)
    assert code == 0 and out.startswith("backup 1, full, of ") and "1 tables, 2 rows" in out
    assert "saving rows: 1 of 1 tasks, 2 rows" in errors
    before = connection.now()
    connection.execute("UPDATE t SET v = 3 WHERE k = 1")
    code, out, _ = run("backup", directory, saved, "--json")
    assert code == 0 and (json.loads(out)["kind"], json.loads(out)["rows"]) == ("incremental", 1)
    assert [line.split()[:2] for line in run("backup", "--list", saved)[1].splitlines()[-2:]] == [
        ["1", "full"],
        ["2", "incremental"],
    ]
    assert run("backup", "--verify", saved)[:2] == (0, "2 backups, 2 files, 0 wrong\n")
    code, out, _ = run("restore", saved, directory, "--at", before, "--tables", "t", "--as", "old", "--threads", 1)
    assert code == 0 and "2 rows of 1 tables" in out
    assert connection.execute("SELECT * FROM old ORDER BY k").fetchall() == [(1, 1), (2, 2)]
    assert connection.execute("SELECT * FROM t ORDER BY k").fetchall() == [(1, 3), (2, 2)]
    next(saved.rglob("*.parquet")).unlink()
    code, out, _ = run("backup", "--verify", saved)
    assert code == 1 and "is missing" in out
    code, _, errors = run("backup", directory)
    assert code == 1 and "backup STORE DEST" in errors
    code, _, errors = run("restore", saved, directory, "--threads", 0)
    assert code == 1 and "--threads 0: at least 1" in errors
