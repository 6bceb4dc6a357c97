"""Artefacts of Maven Central for tests, and Java programs of one file."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

_FETCH_SECONDS = 240


@cache
def jar(group: str, artefact: str, version: str) -> Path:
    """The jar of an artefact, from the local repository or fetched into it. Skips the test if it cannot be fetched."""
    name = f"{group}:{artefact}:{version}"
    found = (
        Path.home() / ".m2" / "repository" / Path(*group.split(".")) / artefact / version / f"{artefact}-{version}.jar"
    )
    if found.exists():
        return found
    if shutil.which("mvn") is None:
        pytest.skip(f"{name} is not in the local repository, and there is no mvn to fetch it")
    command = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={name}", "-Dtransitive=false"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} cannot be fetched: mvn has not ended in {_FETCH_SECONDS} s")
    if done.returncode or not found.exists():
        pytest.skip(f"{name} cannot be fetched: {(done.stdout + done.stderr).strip()[-300:]}")
    return found


def run_java(program: Path, class_path: Path, *arguments: str, timeout: float = 240.0) -> str:
    """Runs a Java program of one file; what it prints. Skips the test without a JDK."""
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("a Java program of one file needs a JDK on the PATH")
    options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [java, *options, "-cp", str(class_path), str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
