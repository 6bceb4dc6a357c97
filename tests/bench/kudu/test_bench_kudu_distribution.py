"""Kudu's jars: what is missing is named with the command that downloads it; the programs are unpacked once."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from nyala.bench.kudu.distribution import ARTEFACTS, find_kudu
from nyala.errors import OperationalError

_JARS = ("kudu-client-1.9.0", "kudu-client-1.18.1", "async-1.4.1", "slf4j-api-1.7.36", "slf4j-nop-1.7.36")


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Java."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def _with_jars(directory: Path) -> Path:
    for name in _JARS:
        (directory / f"{name}.jar").write_bytes(b"")
    with zipfile.ZipFile(directory / "kudu-binary-1.18.1-linux-x86_64.jar", "w") as archive:
        for member in ("bin/kudu", "bin/kudu-master", "bin/kudu-tserver", "lib/libkudu.so", "lib/sasl2/libplain.so"):
            archive.writestr(f"kudu-binary-1.18.1-linux-x86_64/{member}", member)
    return directory


def test_an_empty_directory_gets_the_commands(tmp_path: Path) -> None:
    with pytest.raises(OperationalError) as caught:
        find_kudu(tmp_path)
    for name, artefact in ARTEFACTS.items():
        assert name in str(caught.value)
        assert f"mvn dependency:copy -Dartifact={artefact} -DoutputDirectory={tmp_path}" in str(caught.value)


def test_only_missing_jars_are_named(tmp_path: Path) -> None:
    (_with_jars(tmp_path) / "async-1.4.1.jar").unlink()
    with pytest.raises(OperationalError, match=r"has no async of Kudu"):
        find_kudu(tmp_path)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(OperationalError, match="needs Java"):
        find_kudu(_with_jars(tmp_path))


def test_programs_are_unpacked_with_the_newest_client(tmp_path: Path) -> None:
    kudu = find_kudu(_with_jars(tmp_path))
    assert kudu.version == "1.18.1"
    assert os.access(kudu.program("kudu-master"), os.X_OK)
    assert "kudu-client-1.18.1.jar" in kudu.class_path
    assert "1.9.0" not in kudu.class_path
    assert kudu.environment()["LD_LIBRARY_PATH"] == str(kudu.home / "lib")
    assert Path(kudu.environment()["SASL_PATH"]).is_dir()


def test_programs_are_not_unpacked_again(tmp_path: Path) -> None:
    marked = find_kudu(_with_jars(tmp_path)).home / "bin" / "mark"
    marked.write_text("")
    find_kudu(tmp_path)
    assert marked.exists()


def test_an_interrupted_unpacking_is_repeated(tmp_path: Path) -> None:
    _with_jars(tmp_path)
    partial = tmp_path / "kudu-binary-1.18.1-linux-x86_64.partial" / "kudu-binary-1.18.1-linux-x86_64" / "bin"
    partial.mkdir(parents=True)
    (partial / "left").write_text("")
    kudu = find_kudu(tmp_path)
    assert not (kudu.home / "bin" / "left").exists()
