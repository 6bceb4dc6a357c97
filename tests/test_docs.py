"""Prose that would go stale unnoticed: examples run, and names that documents mention exist."""

from __future__ import annotations

import argparse
import builtins
import contextlib
import doctest
import gc
import importlib
import io
import pkgutil
import re
import shlex
import sys
import tomllib
from code import InteractiveConsole
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import nyala
import pytest
from nyala.__main__ import main
from nyala.cli.commands.all_commands import nyala_parser
from nyala.driver.connection import Connection
from nyala.driver.stores.cluster_url import TLS_OPTIONS, USER_ENVIRONMENT
from nyala.sql.functions.registry import REGISTRY
from nyala.sql.settings import SETTINGS

ROOT = Path(nyala.__file__).parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(nyala.__path__, "nyala.") if not m.name.endswith("__main__"))
ROOMS = sorted(name for name in MODULES if importlib.util.find_spec(name).submodule_search_locations)  # type: ignore
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOREIGN = {"functions.md", "sqlalchemy.md"}
"""Their capitalised names are values of examples, and SQLAlchemy's."""
NAMING = [
    *(d for d in DOCUMENTS if d.name not in FOREIGN),
    *(ROOT.joinpath(*n.split(".")[1:], "__init__.py") for n in ROOMS),
]

FENCE = re.compile(r"^```(?P<language>\w+(?: run)?)[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
TICKED = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
CAMEL = re.compile(r"[A-Z]\w*[a-z]\w*")


FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Checker(doctest.OutputChecker):
    """Compares outputs; how long something took, and how much memory it held, may differ."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        measured = re.compile(r"\d[\d.,]* (µs|ms|s|kB|MB)\b")
        return super().check_output(measured.sub("?", want), measured.sub("?", got), optionflags)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("nyala"):
            raise
        pytest.skip(f"{name} wants {error.name}, which an extra installs")


def test_there_are_modules_to_look_at() -> None:
    assert {"nyala.errors", "nyala.model.keys.keys", "nyala.sql.expressions"} <= set(MODULES)


def _source(name: str) -> Path:
    path = ROOT.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _has_examples(name: str) -> bool:
    """True if the source has a prompt. To search a module's objects for examples takes 30 ms, and most have none."""
    path = _source(name)
    return path.exists() and ">>> " in path.read_text(encoding="utf-8")  # a compiled module has no source


@pytest.mark.parametrize("name", [name for name in ("nyala", *MODULES) if _has_examples(name)])
def test_examples_in_docstrings_run(name: str) -> None:
    failed, tried = doctest.testmod(_import(name), optionflags=FLAGS)
    assert failed == 0
    assert tried, "the prompt is in no docstring"


def _blocks(path: Path) -> list[tuple[str, int, str]]:
    """Language, first line and text of every fenced block that is a program."""
    text = path.read_text(encoding="utf-8")
    return [
        (match["language"], text.count("\n", 0, match.start("code")) + 1, match["code"])
        for match in FENCE.finditer(text)
        if match["language"] in ("sql", "python", "console run")
    ]


@pytest.mark.filterwarnings("ignore:a connection to .* was dropped:ResourceWarning")  # a page need not close each
@pytest.mark.parametrize("path", [p for p in DOCUMENTS if _blocks(p)], ids=_name)
def test_examples_in_documents_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document's SQL blocks are one session, its Python blocks one program; both run in the order of the page.

    Python blocks with prompts must print what they show, and so must the commands of `console run` blocks.
    """
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "document"}
    with nyala.connect(":memory:") as connection:
        for language, line, code in _blocks(path):
            if language == "python":
                names = _run_python(path, line, code, names)
                continue
            if language == "console run":
                _run_commands(path, line, code)
                continue
            try:
                connection.execute(code)
            except nyala.Error as error:
                pytest.fail(f"{_name(path)}, the block at line {line}:\n{error}")
    for value in names.values():
        if isinstance(value, Connection):
            value.close()
        elif type(value).__name__ == "Engine":
            value.dispose()
    # What the page leaves open is dropped here, where its warning is allowed, and not in whichever test comes next.
    names.clear()
    gc.collect()


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if _blocks(p)], ids=_name)
def test_plain_blocks_can_be_pasted_into_a_session_line_by_line(path: Path) -> None:
    """Python before 3.13 ends a block at an empty line, and requires one before the next statement. Classes are exempt:
    they belong in files, and have empty lines between methods."""
    plain = [block for block in _blocks(path) if block[0] == "python" and ">>>" not in block[2]]
    for _, line, code in (block for block in plain if not re.search("^class ", block[2], re.MULTILINE)):
        session = _Session()
        for text in [*code.splitlines(), ""]:
            session.push(text)
        assert not session.wrong, f"{_name(path)}:{line}: {session.wrong}"


class _Session(InteractiveConsole):
    """Compiles what is typed, and runs none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def runcode(self, code: CodeType) -> None:
        pass

    def showsyntaxerror(self, filename: str | None = None, **kwargs: Any) -> None:
        self.wrong.append(str(sys.exc_info()[1]))


def _run_python(path: Path, line: int, code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run one block; the names that it leaves."""
    if not code.lstrip().startswith(">>>"):
        exec(compile("\n" * (line - 1) + code, str(path), "exec"), names)
        return names
    runner = doctest.DocTestRunner(Checker(), optionflags=FLAGS)
    test = doctest.DocTestParser().get_doctest(code, names, _name(path), _name(path), line - 1)
    failed, _ = runner.run(test, clear_globs=False)
    assert failed == 0, f"{_name(path)}: the block at line {line} prints something else"
    return test.globs


def _run_commands(path: Path, line: int, code: str) -> None:
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, want = part.partition("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert main(shlex.split(command)[1:]) == 0, f"{_name(path)}, block at line {line}: {command}"
        assert Checker().check_output(want, printed.getvalue(), FLAGS), f"{command} prints\n{printed.getvalue()}"


# ---- names ---------------------------------------------------------------------------------------------------------


@cache
def _classes() -> dict[str, list[object]]:
    """Objects in the package's modules by capitalised name."""
    found: dict[str, list[object]] = {}
    for name in ["nyala", *MODULES]:
        for key, value in vars(_import(name)).items():
            if CAMEL.fullmatch(key):
                found.setdefault(key, []).append(value)
    return found


def _has(owner: object, path: list[str]) -> bool:
    """True if `owner` has the attribute path. Fields count whether annotated, slotted or set in `__init__`."""
    if not path:
        return True
    name, *rest = path
    if hasattr(owner, name):
        return _has(getattr(owner, name), rest)
    if not isinstance(owner, type) or rest:
        return False
    annotated = any(name in vars(c).get("__annotations__", {}) for c in owner.__mro__)
    assigned = any(name in c.__init__.__code__.co_names for c in owner.__mro__ if hasattr(c.__init__, "__code__"))
    return annotated or assigned


def _resolves(token: str, room: str) -> bool:
    """True if a dotted name exists, seen from a room ("nyala" for documents), or is not a name of nyala's."""
    parts = token.split(".")
    for base in dict.fromkeys((room, "nyala")):
        if f"{base}.{parts[0]}" in MODULES:
            return _resolves_module(f"{base}.{parts[0]}", parts[1:])
    if CAMEL.fullmatch(parts[0]) and not hasattr(builtins, parts[0]):
        return any(_has(owner, parts[1:]) for owner in _classes().get(parts[0], ()))
    return True


def _resolves_module(module: str, rest: list[str]) -> bool:
    while rest and f"{module}.{rest[0]}" in MODULES:
        module, rest = f"{module}.{rest[0]}", rest[1:]
    return _has(_import(module), rest)


def _path_exists(token: str, folder: Path) -> bool:
    """True if a path exists, or does not look like a path of the repository."""
    first = token.split("/")[0]
    if re.fullmatch(r"\w+\.(py|md)", token):
        return (folder / token).exists() or (ROOT / token).exists()
    if "/" not in token or not first or not (ROOT / first).is_dir() or re.search(r"[ *{}<>…]", token):
        return True
    return (ROOT / token).exists() or (folder / token).exists()


@cache
def _lower_names() -> frozenset[str]:
    """Modules, functions, constants of modules, and SQL functions."""
    stems = {module.rpartition(".")[2] for module in MODULES}
    return frozenset(stems.union(REGISTRY, *(vars(_import(name)) for name in MODULES)))


@pytest.mark.parametrize("path", [p for p in NAMING if p.suffix == ".py" and p.exists()], ids=_name)
def test_modules_that_a_front_page_names_exist(path: Path) -> None:
    package = ".".join(["nyala", *path.parent.relative_to(ROOT).parts])
    enclosing = [package.rsplit(".", n)[0] if n else package for n in range(package.count(".") + 1)]
    wrong = []
    for token in TICKED.findall(FENCE.sub("", _import(package).__doc__ or "")):
        name = re.sub(r"\(.*\)$", "", token)
        first = name.partition(".")[0]
        if re.fullmatch(r"[a-z]\w*(\.\w+)+", name) and first != "nyala":
            if not any(f"{base}.{first}" in MODULES for base in enclosing):
                wrong.append(token)
        elif re.fullmatch(r"[a-z]+(_[a-z]+)+", name) and name not in _lower_names():
            wrong.append(token)
    assert not wrong, f"{_name(path)} mentions modules that do not exist: {wrong}"


@pytest.mark.parametrize("path", [p for p in NAMING if p.exists()], ids=_name)
def test_names_in_prose_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    room = "nyala"
    if path.suffix == ".py":
        room = ".".join(["nyala", *path.parent.relative_to(ROOT).parts])
        text = _import(room).__doc__ or ""
    wrong = []
    for token in TICKED.findall(FENCE.sub("", text)):
        if "::" in token:  # of the next test
            continue
        plain = re.sub(r"\(.*\)$", "", token)
        dotted = DOTTED.fullmatch(plain) and not plain.endswith((".py", ".md", ".java"))
        if not (_resolves(plain, room) if dotted else _path_exists(token, path.parent)):
            wrong.append(token)
    assert not wrong, f"{_name(path)} mentions what does not exist (renamed?): {wrong}"


NOT_OURS = {
    "deploying.md": {"minReadySeconds"},
    "doors.md": {"bulk_create", "bulk_update", "select_for_update", "inspectdb", "schema_editor", "create_model"}
    | {"add_field", "remove_field"},
    "driver.md": {"decimal", "dispose", "callproc", "nextset", "errorhandler", "post_fork", "worker_process_init"},
    "spark.md": {"create_sink", "pushDownPredicate", "partitionColumn", "customSchema"},
    "sqlalchemy.md": {
        "begin_nested",
        "inserted_primary_key",
        "nyala_block_size",
        "nyala_compression",
        "nyala_immutable",
        "orig",
    }
    | {"with_for_update"},
}
"""Names of Django, PEP 249, gunicorn, Celery, Spark and SQLAlchemy that a page mentions and our code does not."""
EXAMPLES = {"ca", "client", "df", "engine", "error", "kudu", "main", "orders", "past", "polars", "scan", "token"} | {
    "public",
    "schema",
    "staging",
}
"""First parts of dotted names that are variables, files, schemas or libraries."""


@cache
def _words_of_the_code() -> frozenset[str]:
    """Identifiers of the package's sources, and words of its text literals; docstrings and comments do not count."""
    words = {part for module in MODULES for part in module.split(".")} | set(sys.stdlib_module_names)
    for name in ["nyala", *MODULES]:
        origin = Path(importlib.util.find_spec(name).origin)  # type: ignore
        if origin.suffix == ".py":  # not compiled
            # Level 2 leaves docstrings out. The compiler takes a third of the time of a walk through syntax trees.
            code = compile(origin.read_bytes(), origin, "exec", dont_inherit=True, optimize=2)
            words.update(_words_of(code))
    return frozenset(words)


def _words_of(constant: object) -> Iterator[str]:
    """Yields the identifiers of a code object and those inside it, and the words of its texts."""
    if isinstance(constant, CodeType):
        yield from (constant.co_name, *constant.co_names, *constant.co_varnames, *constant.co_cellvars)
    if isinstance(constant, CodeType | tuple | frozenset):
        for inner in constant.co_consts if isinstance(constant, CodeType) else constant:
            yield from _words_of(inner)
    elif isinstance(constant, str):
        yield from re.findall(r"\w+", constant)


def _unknown_names(text: str, foreign: set[str]) -> Iterator[str]:
    """Yields lower-case names in backticks that neither the code nor an example of the page has.

    A dotted name must also begin with a module that can be imported or with a variable of an example: `client.facts`
    is stale if only `cluster.client.facts` could exist.
    """
    examples = {word for match in FENCE.finditer(text) for word in re.findall(r"\w+", match["code"])}
    for token in TICKED.findall(FENCE.sub("", text)):
        name = re.sub(r"\(.*\)$", "", token)
        if re.fullmatch(r"[a-z]\w*(\.\w+)*", name) and not name.endswith((".py", ".md")):
            first, *rest = name.split(".")
            roots = {"nyala", *examples, *EXAMPLES, *sys.stdlib_module_names, "connection", "pa"}
            known = (_words_of_the_code(), examples, foreign, EXAMPLES)
            is_known = all(any(part in words for words in known) for part in (first, *rest))
            if not is_known or (rest and first not in roots and f"nyala.{first}" not in MODULES):
                yield token


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_lower_case_names_in_documents_exist(path: Path) -> None:
    wrong = list(_unknown_names(path.read_text(encoding="utf-8"), NOT_OURS.get(path.name, set())))
    assert not wrong, f"{_name(path)} mentions what does not exist (renamed?): {wrong}"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`storage.tablet`, `history_seconds`, `write_row()`, `connection.cancel()`", []),
        ("`history_secs` and `tablet_write_paths`", ["history_secs", "tablet_write_paths"]),
        ("`client.statistics_cash`", ["client.statistics_cash"]),
        ("`tablet.mvcc` lacks its room", ["tablet.mvcc"]),
        ("```python\nfleet = 1\n```\n`fleet.close()`", []),
    ],
)
def test_stale_lower_case_names_are_found(text: str, wrong: list[str]) -> None:
    assert list(_unknown_names(text, set())) == wrong


PLACES = re.compile(r"`([\w/]+)\.py::([\w.]+)`")


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_functions_that_a_document_places_in_a_file_are_defined_there(path: Path) -> None:
    """`path::function`; an import of it from elsewhere does not count."""
    wrong = []
    for file, name in PLACES.findall(path.read_text(encoding="utf-8")):
        module = "nyala." + file.replace("/", ".")
        owner: Any = _import(module) if module in MODULES else None
        for part in name.split("."):
            owner = getattr(owner, part, None)
        if owner is None or owner.__module__ != module:
            wrong.append(f"{file}.py::{name}")
    assert not wrong, f"{_name(path)} places functions where they are not (moved or renamed?): {wrong}"


def test_the_tour_has_twenty_stops_and_each_a_place() -> None:
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    stops = re.findall(r"^\*\*(\d+)\. `[\w/]+\.py::[\w.]+`\*\*", text, re.MULTILINE)
    assert stops == [str(number) for number in range(1, 21)]


# ---- commands, options, links --------------------------------------------------------------------------------------


def _commands(text: str) -> Iterator[str]:
    """Every command line of `nyala` in a document: after a prompt, and in running text."""
    for block in re.finditer(r"^```console[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block[1].splitlines():
            yield from re.findall(r"(?:^\$ |\| )(nyala [^|]*?)(?:\s+#.*)?(?:\s>.*)?$", line)
    yield from (token for token in TICKED.findall(FENCE.sub("", text)) if re.match(r"nyala \w", token))


_whole_parser = cache(nyala_parser)


def _parser_of(words: list[str]) -> argparse.ArgumentParser:
    """The parser of the sub-command that the words begin with."""
    parser: argparse.ArgumentParser = _whole_parser()
    for word in words:
        steps = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not steps or word.startswith(("-", "[")):
            break
        assert word in steps[0].choices, f"there is no command {word!r} of {parser.prog}"
        parser = steps[0].choices[word]
    return parser


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_commands_in_documents_exist(path: Path) -> None:
    for command in _commands(path.read_text(encoding="utf-8")):
        words = shlex.split(command)[1:]
        parser = _parser_of(words)
        unknown = [
            word
            for word in (word.strip("[]").partition("=")[0] for word in words)
            if re.match(r"--?[a-z]", word) and word not in parser._option_string_actions
        ]
        assert not unknown, f"{_name(path)}: {command}: {parser.prog} has no {unknown}"


@pytest.mark.parametrize("folder", [ROOT / "docs", ROOT / "docs" / "decisions"], ids=lambda folder: folder.name)
def test_the_index_of_a_folder_lists_all_of_its_pages(folder: Path) -> None:
    listed = set(re.findall(r"\]\(([^)/]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8")))
    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_links_lead_somewhere(path: Path) -> None:
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        file, _, anchor = target.partition("#")
        if re.match(r"https?:", target):
            continue
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and anchor not in _anchors(there)):
            wrong.append(target)
    assert not wrong, f"{_name(path)} links to what is not there: {wrong}"


def _anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_options_targets_and_extras_exist(path: Path) -> None:
    """Options of `connect`, targets of make and the extras of the package, wherever a document names them."""
    text = path.read_text(encoding="utf-8")
    options = {name for name, setting in SETTINGS.items() if not setting.foreign} - {"timezone"}
    options = {name for name in options if "transaction" not in name}
    options |= {"autocommit", "isolation_level"}
    for call in re.findall(r"(?<!aio\.)\bconnect\(((?:[^()]|\([^()]*\))*)\)", text):
        assert set(re.findall(r"\b(\w+)=", call)) <= {
            *options,
            *TLS_OPTIONS,
            *USER_ENVIRONMENT,
            "observed",
            "speculative_reads",
        }, call
    if path.name in ("driver.md", "operations.md"):
        table = re.search(r"^\| option \|[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)", text, re.MULTILINE)
        assert table is not None
        assert {re.findall(r"`(\w+)`", row)[0] for row in table[1].splitlines()} == options
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^\$ make (\w+)", text, re.MULTILINE)) <= targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"(?:nyala|install '?\.)\[(\w+)\]", text)) <= set(extras)
