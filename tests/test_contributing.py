"""CONTRIBUTING.md's recipes, followed literally: each is made in a copy of the package, and its commands are run there.

A `diff` block names a file (`--- path`, or `+++ path` for a new one). The lines without a sign and those with `-` occur
in the file once, in this order; the block puts those without a sign and those with `+` in their place.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nyala
import pytest

ROOT = Path(nyala.__file__).parent
RECIPES = {
    section.partition("\n")[0]: section
    for section in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")
    if section.startswith("Add ")
}
BLOCK = re.compile(r"^```(diff|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = {
    "tests",
    ".git",
    ".venv",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".data",
    "build",
    "dist",
}


def copy_of_package(package: Path) -> Path:
    """A copy of the repository's files. Their times are kept, so that the compiled modules, which are linked, hold."""
    for path in ROOT.iterdir():
        if path.name not in LEFT_OUT and not path.name.endswith(".egg-info"):
            _copy(path, package / path.name)
    return package


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.name == "__pycache__":
        to.symlink_to(path)
    elif path.is_dir():
        for inner in path.iterdir():
            _copy(inner, to / inner.name)
    else:
        shutil.copy2(path, to)  # no link: commands of a recipe write to files


def change(package: Path, block: str) -> None:
    """Apply a `diff` block."""
    head, _, body = block.partition("\n")
    path = package / head[4:]
    lines = body.splitlines()
    assert all(line[:1] in (" ", "+", "-", "") for line in lines), f"no sign: {block}"
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    if head.startswith("+++ "):
        assert not path.exists() and not before
        text = after
    else:
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{head[4:]} has {text.count(before)} times:\n{before}"
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def run(package: Path, command: str) -> str:
    """Runs a command of the page in the copy; returns its output."""
    python = f'"{sys.executable}"'
    line = re.sub("^nyala ", f"{python} -m nyala ", re.sub(r"^python ", f"{python} ", command))
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        line, shell=True, capture_output=True, text=True, cwd=package, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def test_there_are_six_recipes() -> None:
    kinds = ("SQL function", "encoding", "optimizer rule", "wire method", "shell command", "Spark option")
    assert [name.split(maxsplit=2)[2] for name in RECIPES] == list(kinds)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_what_it_says(name: str, tmp_path: Path) -> None:
    before = (ROOT / "docs" / "functions.md").read_bytes()
    package = copy_of_package(tmp_path / "nyala")
    for kind, text in BLOCK.findall(RECIPES[name]):
        if kind == "diff":
            change(package, text)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            printed = run(package, command)
            assert printed == expected, command
    assert (ROOT / "docs" / "functions.md").read_bytes() == before, "a recipe changes its copy alone"


def test_hooks_run_commands_that_there_are() -> None:
    hooks = re.findall(r"^ +entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(hooks) == 3
    for command, *arguments in (hook.split() for hook in hooks):
        assert (command == "make" and set(arguments) <= set(targets)) or arguments[:2] == ["-m", "ruff"]
