"""Front pages: what the `__init__.py` of a folder says of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nyala
import pytest

ROOT = Path(nyala.__file__).parent
LEFT_OUT = {"tests", "build", "dist"}
PAGES = sorted(
    path
    for path in ROOT.rglob("__init__.py")
    if not any(part in LEFT_OUT or part.startswith(".") for part in path.relative_to(ROOT).parts)
)
WORDS = 30
"""A page has at least as many: what lives here, and the life of its one thing."""
FEW = 2
"""A folder of so few modules needs no story."""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).parent.as_posix())
def test_a_front_page_says_what_lives_there(page: Path) -> None:
    text = ast.get_docstring(ast.parse(page.read_text(encoding="utf-8"))) or ""
    assert re.match(r"[\w`\\].*[.:]$", text.partition("\n\n")[0], re.DOTALL), "it begins with a sentence"
    modules = {path.stem for path in page.parent.glob("*.py")} - {"__init__", "__main__"}
    if len(modules) <= FEW:
        return
    assert len(text.split()) >= WORDS, f"{len(text.split())} words: say what lives here, and the life of its one thing"
    folders = {path.name for path in page.parent.iterdir() if (path / "__init__.py").exists()}
    named = {word for word in re.findall(r"\w+", text) if word in modules | folders}
    assert named, f"it leads on to its modules by name, of which there are {sorted(modules)}"
