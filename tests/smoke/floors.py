"""Input of `make floors`, which installs the lower bounds: a bound that was never installed is a guess.

python tests/smoke/floors.py constraints EXTRA...    pip constraints that hold each dependency at its lower bound
python tests/smoke/floors.py pythons                 the oldest and the newest Python on this machine that will do
python tests/smoke/floors.py copy DIR                a copy of the sources, to be installed from
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_BOUND: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?>=(?P<floor>[\w.]+)")
PROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"
OLDEST: Final = (3, 11)


def constraints(extras: Sequence[str]) -> Iterator[str]:
    """`name==lower bound` of each dependency of the project and of `extras`; ValueError where there is no bound."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    optional = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *(line for extra in extras for line in optional[extra])]:
        found = _BOUND.match(requirement)
        if found is None:
            raise ValueError(f"{requirement} has no lower bound")
        yield f"{found['name']}=={found['floor']}"


def pythons() -> list[str]:
    """The oldest and the newest Python from `OLDEST` on: of those on the PATH and of pyenv's."""
    candidates = [sys.executable, *(f"python3.{minor}" for minor in range(OLDEST[1], 30))]
    candidates += map(str, Path.home().glob(".pyenv/versions/3.*/bin/python"))
    found = {}
    for candidate in candidates:
        version = _version(candidate)
        if version is not None and version[:2] >= OLDEST:
            found.setdefault(version, candidate)
    return list(dict.fromkeys([found[min(found)], found[max(found)]]))


def _version(python: str) -> tuple[int, ...] | None:
    try:
        said = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return tuple(int(number) for number in re.findall(r"\d+", said))


def copy(directory: str) -> None:
    """Copy the sources, and the compiled kernels if there are any, without virtual environments and caches."""
    shutil.copytree(PROJECT.parent, directory, ignore=shutil.ignore_patterns(".*", "__pycache__"))


if __name__ == "__main__":
    if sys.argv[1] == "copy":
        copy(sys.argv[2])
    else:
        print(*(pythons() if sys.argv[1] == "pythons" else constraints(sys.argv[2:])), sep="\n")
