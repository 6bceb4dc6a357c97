"""The English of docstrings, comments and documents, as far as a pattern can hold it.

`python tests/test_language.py storage cluster/raft` lists the faults of rooms, or folders, that are not held yet.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import nyala
import pytest

ROOT = Path(nyala.__file__).parent
ROOMS = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "__init__.py",
    "__main__.py",
    "backup",
    "bench",
    "cli",
    "cluster",
    "command_line.py",
    "docs",
    "doors",
    "driver",
    "error_access.py",
    "error_bases.py",
    "error_hints.py",
    "errors.py",
    "executor",
    "model",
    "net",
    "planner",
    "pyspark_nyala",
    "shell",
    "spark",
    "sql",
    "storage",
    "testing.py",
    "tests",
    "tpch",
)
"""Rooms, folders and files that are held. Add one when it is clean; folders give way to their room."""

OPENING = re.compile(r"(What|Whatever|Who|Whoever|Whom|Whose|Where|Wherever|How|Why)\b")
QUESTION = re.compile(r"[^.:;?]*\?(\s|$)")
INSTEAD = {
    r"whoever|whomever": "the component: the caller, the client, any reader",
    r"(some|no|any|every)body": "the component: a caller, another thread, no client",
    r"so (many|much)": "`n`, with its unit",
    r"(stand|stands|stood|standing) still": "wait, block",
    r"(give|gives|gave|given|giving) (it |them )?up": "cancel, time out, abandon",
    r"(let|lets|letting) go": "release",
    r"(asks?|asked|asking)": "request, call",
    r"(tells?|told|telling)": "return, report, notify",
    r"(?<!you\x20)(wants?|wanted)": "request, need, use",
    r"(its|one's|their|his) turn": "wait until, in order",
    r"(do|does|done|try|tries|tried) (it |this |them )?once more": "retry",
    r"(come|comes|came) about": "acknowledged, durable, visible, committed",
    r"as (it|they) (is|are) now": "the latest committed state",
    r"(lay|lays|laid|laying) over": "overlay",
    r"(put|puts|putting) right": "overlay, correct",
    r"(put|puts|putting) away": "evict, flush",
    r"(bring|brings|brought|bringing) forward": "compact, rewrite",
    r"set aside": "changed rows, quarantine",
    r"late parameters?": "placeholder, bind value",
    r"scan slots?": "placeholder, bind value",
    r"crews?": "thread pool, worker",
    r"the (long|short) way": "fallback; row path, batch path",
    r"way of (its|their) own": "row path, batch path",
    r"numbers? of a call": "call id",
    r"how far back one can read": "ancient history mark",
    r"what nobody has wanted": "discarded results",
    r"(travel|travels) together": "batch, coalesce",
    r"asked early": "prefetch",
}
"""Words that mark a sentence to rewrite, and what it says instead: nouns, active verbs, the field's terms."""
WORDS = re.compile("|".join(rf"\b(?:{word})\b" for word in INSTEAD).replace(" ", r"\s+"), re.IGNORECASE)
CODE = re.compile(r"```.*?^\s*```|``.*?``|`[^`\n]+`|^\s*(?:>>>|\.\.\.) .*?$", re.DOTALL | re.MULTILINE)
EXCEPTIONS: set[tuple[str, str]] = set()
"""File and words, in lower case, where the words are no fault: quotations, names of others."""


def _is_held(path: Path, rooms: tuple[str, ...]) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return any(name == room or name.startswith(f"{room}/") for room in rooms)


def _sources(rooms: tuple[str, ...]) -> Iterator[Path]:
    """Python files and documents of the rooms; decision records keep the words of their day."""
    for room in rooms:
        start = ROOT / room
        documents = start.glob("*.md") if room == "docs" else ()
        yield from [start] if start.is_file() else sorted([*start.rglob("*.py"), *documents])


def _statements(body: Iterable[ast.AST]) -> Iterator[list[ast.stmt]]:
    """Yields each sequence of statements; expressions, which are most of a tree, have none."""
    for node in body:
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                if field not in ("handlers", "cases"):
                    yield inner
                yield from _statements(inner)


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """First line and text of each docstring, also of those that follow an attribute."""
    for body in _statements([tree]):
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                if isinstance(statement.value.value, str):
                    yield statement.lineno, statement.value.value


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments that follow each other are one text."""
    first, last, lines = 0, (0, 0), list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            if (line - 1, column) != last:
                yield first, "\n".join(lines)
                first, lines = line, []
            lines.append(token.string.lstrip("# "))
            last = line, column
    yield first, "\n".join(lines)


def _may_have_faults(text: str) -> bool:
    """False if no comment has one of the words. Lines with `#` hold all comments; to read tokens takes longer."""
    ends = (line.partition("#")[2].lstrip("# ") for line in text.splitlines() if "#" in line)
    return WORDS.search("\n".join(ends)) is not None


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") + "_"


def _faults_of_words(name: str, line: int, text: str) -> Iterator[str]:
    text = CODE.sub(_blank, text)
    for match in WORDS.finditer(text):
        words = " ".join(match[0].lower().split())
        if (name, words) not in EXCEPTIONS:
            at = line + match.string.count("\n", 0, match.start())
            say = next(say for word, say in INSTEAD.items() if re.fullmatch(word, words))
            yield f"{name}:{at}: {words!r}; say {say}"


def _faults_of_docstring(name: str, line: int, text: str) -> Iterator[str]:
    start = text.strip()
    if OPENING.match(start):
        yield f"{name}:{line}: begins with {start.split()[0]!r}: {start.splitlines()[0][:80]}"
    if QUESTION.match(start):
        yield f"{name}:{line}: asks, say 'True if ...': {start.splitlines()[0][:80]}"
    yield from _faults_of_words(name, line, text)


def faults(rooms: tuple[str, ...]) -> Iterator[str]:
    """Yields a line for each fault in the docstrings, comments and documents of rooms, folders or files."""
    for path in _sources(rooms):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            yield from _faults_of_words(name, 1, text)
            continue
        for line, docstring in _docstrings(ast.parse(text)):
            yield from _faults_of_docstring(name, line, docstring)
        for line, comment in _comments(text) if _may_have_faults(text) else ():
            yield from _faults_of_words(name, line, comment)


@pytest.mark.parametrize("room", ROOMS)
def test_prose_is_plain(room: str) -> None:
    wrong = list(faults((room,)))
    assert not wrong, "\n".join([*wrong, "A noun, an active verb, the field's word for it."])


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_that_are_held_exist_and_once(room: str) -> None:
    assert (ROOT / room).exists()
    assert not _is_held(ROOT / room, tuple(other for other in ROOMS if other != room))


@pytest.mark.parametrize(
    ("docstring", "count"),
    [
        ("Rows of a tablet.", 0),
        ("True if the tablet has rows; see what `ask` does.", 0),
        ("What a tablet holds.", 1),
        ("Whether rows are sorted.", 0),
        ("Has the tablet rows? True if not.", 1),
        ("Rows that\n    somebody wrote, so\n    many.", 2),
        ("True if it matches: `a?`.", 0),
        ("Gives up, and whoever waits is told.", 3),
        ("The rest.\n\n    >>> tell('somebody')\n    'x'\n", 0),
    ],
)
def test_the_search_finds_faults(docstring: str, count: int) -> None:
    assert len(list(_faults_of_docstring("x.py", 1, docstring))) == count


def test_the_search_reads_attributes_and_comments() -> None:
    text = 'A = 1\n"""How it is."""\n# Nobody\n# waits.\nB = 2  # so many\n'
    assert [line for line, _ in _docstrings(ast.parse(text))] == [2]
    assert [comment for _, comment in _comments(text) if comment] == ["Nobody\nwaits.", "so many"]
    assert all(map(_may_have_faults, ("x = '#'  # nobody", "# so\n# many", "#nobody", text)))
    assert not _may_have_faults("nobody = 1  # the `#` of a comment")


if __name__ == "__main__":
    print("\n".join(faults(tuple(sys.argv[1:]))))
