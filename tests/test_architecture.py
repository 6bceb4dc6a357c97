"""The house rules that a reader relies on, held by reading the sources. Each failure says what to do instead."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import nyala
import pytest

ROOT = Path(nyala.__file__).parent
STOREYS = (
    ("__init__", "__main__", "testing"),
    ("cli",),
    ("shell", "bench"),
    ("tpch",),
    ("spark",),
    ("backup",),
    ("doors",),
    ("driver",),
    ("executor",),
    ("planner",),
    ("sql",),
    ("cluster",),
    ("net",),
    ("storage",),
    ("model",),
    ("command_line",),
    ("errors",),
    ("error_access",),
    ("error_bases", "error_hints"),
)
"""Top to bottom: a room knows only the rooms below it, and of its own storey only itself."""
FLOOR = {room: depth for depth, storey in enumerate(STOREYS) for room in storey}
MAX_LINES = 600
BESIDE = "pyspark_nyala"
"""A package of its own beside ours, of one file, by which Spark finds us."""
NOT_PACKAGE = {"tests", "docs", "build", "dist", "examples", BESIDE}


def _is_source(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return not (parts[0] in NOT_PACKAGE or any(part.startswith(".") or part == "__pycache__" for part in parts))


SOURCES = sorted(path for path in ROOT.rglob("*.py") if _is_source(path))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


class _Source:
    """Docstring and imports of a file, for most rules. Its whole tree is not kept: the garbage collector would visit
    millions of nodes for the rest of the run."""

    def __init__(self, path: Path) -> None:
        tree = _tree(path)
        self.docstring = ast.get_docstring(tree)
        self.imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        """Also those in functions and under TYPE_CHECKING."""


_source = cache(_Source)


def _relative_imports(path: Path) -> Iterator[tuple[ast.ImportFrom, tuple[str, ...]]]:
    """Each relative import, and its module from the package down."""
    package = path.relative_to(ROOT).parent.parts
    for node in _source(path).imports:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            yield node, (*base, *(node.module.split(".") if node.module else ()))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and target room of every relative import."""
    for node, target in _relative_imports(path):
        if target:
            yield node.lineno, target[0]
        else:  # `from .. import x`: x is a room, or a name of the front door
            yield from ((node.lineno, a.name if a.name in FLOOR else "__init__") for a in node.names)


def test_there_are_sources_to_look_at() -> None:
    assert {_room(path) for path in SOURCES} >= {"storage", "sql", "errors", "__init__"}


def test_every_room_has_its_storey() -> None:
    strangers = {_room(path) for path in SOURCES} - FLOOR.keys()
    assert not strangers, f"give {sorted(strangers)} a place in STOREYS here and in docs/architecture.md"


def test_arrows_point_down() -> None:
    wrong = []
    for path in SOURCES:
        here = _room(path)
        for line, there in _imports(path):
            if there != here and FLOOR[there] <= FLOOR[here]:
                wrong.append(f"{_name(path)}:{line}: `{here}` must not know of `{there}`")
    assert not wrong, "\n".join([*wrong, "Move what is needed down, or pass it in from above."])


def _module_file(parts: tuple[str, ...]) -> str | None:
    """Name of the source file of a module or package; None if there is none."""
    for path in (ROOT.joinpath(*parts, "__init__.py"), ROOT.joinpath(*parts).with_suffix(".py")):
        if path.exists():
            return _name(path)
    return None


def _imported_files(path: Path) -> set[str]:
    """The other source files that a file imports, also inside functions and under TYPE_CHECKING.

    Not itself, as a file may that is run as `__main__`.
    """
    found: set[str] = set()
    for node, target in _relative_imports(path):
        files = (_module_file((*target, alias.name)) or _module_file(target) for alias in node.names)
        found |= {file for file in files if file is not None}
    return found - {_name(path)}


def _circles(imports: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The largest groups of files each of which imports, perhaps through others, all files of its group."""
    reached: dict[str, set[str]] = {}
    for name, there in imports.items():
        known: set[str] = set()
        while there:
            known |= there
            there = set().union(*(imports[next_] for next_ in there)) - known
        reached[name] = known
    return {frozenset(o for o in known if name in reached[o]) for name, known in reached.items() if name in known}


def test_no_modules_import_each_other() -> None:
    circles = _circles({_name(path): _imported_files(path) for path in SOURCES})
    wrong = [" <-> ".join(sorted(circle)) for circle in circles]
    assert not wrong, "\n".join([*wrong, "Pass what the lower one needs, as values or by a Protocol of its own."])


def test_the_search_for_circles_finds_them() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"f"}, "f": {"d", "e"}, "g": {"g", "a"}}
    assert _circles(imports) == {frozenset("bc"), frozenset("def"), frozenset("g")}
    assert _imported_files(ROOT / "driver" / "connection.py") >= {"errors.py", "driver/session/session.py"}


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert nyala.__version__ == project["version"]


def test_the_package_imports_itself_relatively() -> None:
    wrong = []
    for path in SOURCES:
        for node in _source(path).imports:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            own = {"nyala", *FLOOR} - {"__init__", "__main__"}
            wrong += [f"{_name(path)}:{node.lineno}: {name}" for name in names if name.split(".")[0] in own]
    assert not wrong, "\n".join([*wrong, "Write `from ..room.module import name`: every tool can follow that."])


OPENS_DIRECTORIES = "driver/stores/open_stores.py"
"""The one module above the cluster, up to the driver, that may know the engine: it opens directories."""


def _storage_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of each import into storage/, dotted from the package."""
    for node, module in _relative_imports(path):
        if module[:1] == ("storage",):
            modules = [a.name for a in node.names if ROOT.joinpath(*module, f"{a.name}.py").exists()]
            yield from ((node.lineno, ".".join((*module, name))) for name in modules or [""])


def test_statements_and_plans_know_nothing_of_the_engine() -> None:
    wrong = [
        f"{_name(path)}:{line}: {module}"
        for path in SOURCES
        if _room(path) in ("sql", "planner", "driver") and _name(path) != OPENS_DIRECTORIES
        for line, module in _storage_imports(path)
    ]
    assert not wrong, "\n".join([*wrong, "Take it from model/, or through `model.store.Store`."])


def test_other_rooms_enter_storage_by_its_doors() -> None:
    page = _source(ROOT / "storage" / "__init__.py").docstring or ""
    doors = set(re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE))
    entered: dict[str, str] = {}
    for path in SOURCES:
        if _room(path) != "storage":
            for line, module in _storage_imports(path):
                entered[module.removeprefix("storage.").rstrip(".")] = f"{_name(path)}:{line}"
    wrong = [f"{place}: storage.{module} is no door" for module, place in entered.items() if module not in doors]
    wrong += [f"storage/__init__.py: nobody uses the door `{door}`" for door in sorted(doors - entered.keys())]
    assert not wrong, "\n".join([*wrong, "The page of doors in storage/__init__.py lists what other rooms may import."])


DISK_CALLS = {
    "os": {
        "open", "fdopen", "remove", "unlink", "rename", "replace", "mkdir", "makedirs", "rmdir", "removedirs",
        "listdir", "scandir", "stat", "truncate", "ftruncate", "fsync", "fdatasync", "link", "symlink", "walk",
    },
    "pa": {"OSFile", "memory_map", "create_memory_map", "input_stream", "output_stream"},
    "io": {"open", "FileIO", "open_code"},
}  # fmt: skip
DISK_MODULES = {"pathlib", "shutil", "tempfile", "mmap", "fcntl", "glob", "sqlite3"}


def test_one_door_leads_from_storage_to_the_disk() -> None:
    wrong = []
    for path in SOURCES:
        # Temporary files have no name and no contents after a crash, and none of them counts: nothing to simulate.
        if _room(path) not in ("model", "storage") or path.name in ("os_filesystem.py", "spill_file.py"):
            continue
        for node in ast.walk(_tree(path)):
            wrong += [f"{_name(path)}:{getattr(node, 'lineno', 0)}: {use}" for use in _disk_uses(node)]
    assert not wrong, "\n".join(
        [*wrong, "Go through storage.files.filesystem.FileSystem, which tests can crash and fail."]
    )


def _disk_uses(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [a.name for a in node.names if a.name.split(".")[0] in DISK_MODULES]
    if isinstance(node, ast.ImportFrom) and not node.level:
        module = (node.module or "").split(".")[0]
        named = [a.name for a in node.names if a.name in DISK_CALLS.get(module, set())]
        return [module] if module in DISK_MODULES else named
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            return ["open()"]
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            owner, name = function.value.id, function.attr
            return [f"{owner}.{name}()"] if name in DISK_CALLS.get(owner, set()) else []
    return []


def _pyproject() -> dict[str, dict[str, dict[str, object]]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


OUT_OF_THE_WHEEL = "bench"


def test_the_package_list_equals_the_folders() -> None:
    listed = _pyproject()["tool"]["setuptools"]["packages"]
    assert isinstance(listed, list)
    pages = [p for p in SOURCES if p.name == "__init__.py" and _room(p) != OUT_OF_THE_WHEEL]
    folders = {".".join(["nyala", *p.relative_to(ROOT).parent.parts]) for p in pages}
    folders.add(BESIDE)
    assert set(listed) == folders, "a package missing from pyproject.toml is missing from the wheel, in silence"
    bare = {_name(path.parent) for path in SOURCES if not (path.parent / "__init__.py").exists()}
    assert not bare, f"{sorted(bare)} hold modules and need an __init__.py"


def test_every_data_file_is_in_the_wheel() -> None:
    patterns = _pyproject()["tool"]["setuptools"]["package-data"]
    packages = {path.parent for path in SOURCES if path.name == "__init__.py"}
    packaged = [p for p in packages if p != ROOT and _room(p / "__init__.py") != OUT_OF_THE_WHEEL]
    files = [f for p in packaged for f in p.rglob("*") if f.is_file() and _is_source(f)]
    missing = []
    for file in files:
        if file.suffix in (".py", ".pyc", ".md", ".so", ".pyd"):  # the installation compiles some
            continue
        owner = max((p for p in packages if p in file.parents), key=lambda p: len(p.parts))
        listed = patterns.get(".".join(["nyala", *owner.relative_to(ROOT).parts]), [])
        assert isinstance(listed, list)
        if not any(fnmatch(file.relative_to(owner).as_posix(), str(pattern)) for pattern in listed):
            missing.append(_name(file))
    assert not missing, f"add to package-data in pyproject.toml: {missing}"


def test_no_file_is_loaded_under_two_names() -> None:
    names: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if (
            file
            and Path(file).is_relative_to(ROOT)
            and _is_source(Path(file))
            and module is not sys.modules["__main__"]
        ):
            names.setdefault(file, set()).add(getattr(module, "__name__", name))
    twice = {_name(Path(file)): sorted(found) for file, found in names.items() if len(found) > 1}
    assert not twice, f"import by `nyala.room.module`, also in tests: {twice}"


def test_modules_say_what_they_are() -> None:
    wrong = [_name(path) for path in SOURCES if not _source(path).docstring]
    assert not wrong, "\n".join([*wrong, "Add a docstring: what the module holds, and a drawing if a format."])


def test_files_are_short_enough_to_read() -> None:
    lines = {_name(path): path.read_text(encoding="utf-8").count("\n") for path in SOURCES}
    wrong = [f"{name}: {count} lines" for name, count in lines.items() if count > MAX_LINES]
    assert not wrong, "\n".join([*wrong, f"Split them by idea below {MAX_LINES}."])


def test_nothing_is_left_undone_in_the_sources() -> None:
    marks = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    tests = list((ROOT / "tests").rglob("*.py"))
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*SOURCES, *tests]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert not wrong, "\n".join([*wrong, "Do it, or describe the limit in the docstring."])


def test_forks_are_dealt_with_in_one_place() -> None:
    """Only `model.forks` refuses and renews state inherited over a fork."""
    for path in SOURCES:
        if _name(path) != "model/forks.py":
            text = path.read_text(encoding="utf-8")
            assert "register_at_fork" not in text, f"{_name(path)}: use model.forks.renew_in_child"


DECODERS = "cluster/decoders.py"


def test_decoders_of_structs_are_built_in_one_place() -> None:
    """A decoder that two threads build at once ends the process by SIGSEGV: msgspec publishes half-built types."""
    wrong = []
    for path in SOURCES:
        if _name(path) == DECODERS:
            continue
        imports = _source(path).imports
        if not any(alias.name.startswith("msgspec") for node in imports for alias in node.names) and not any(
            _names_from_msgspec(node) for node in imports
        ):
            continue
        nodes = list(ast.walk(_tree(path)))
        imported = {a.asname or a.name for n in nodes for a in _names_from_msgspec(n)}
        wrong += [
            f"{_name(path)}:{node.lineno}: {ast.unparse(node)[:60]}"
            for node in nodes
            if isinstance(node, ast.Call) and _builds_types(node, imported)
        ]
    assert not wrong, "\n".join(
        [*wrong, f"Build it with {DECODERS} (msgpack_decoder, json_decoder, converter), when the module is imported."]
    )


def test_decoders_are_built_when_a_module_is_imported() -> None:
    makers = {"msgpack_decoder", "json_decoder", "converter"}
    wrong = []
    for path in SOURCES:
        if _name(path) in (
            DECODERS,
            "cluster/wire/messages/envelope.py",
        ):  # envelopes are made for classes that come later, too
            continue
        if not any(target.endswith("decoders") for target in _from_modules(path)):
            continue
        functions = [
            n for n in ast.walk(_tree(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        ]
        wrong += [
            f"{_name(path)}:{call.lineno}: {ast.unparse(call)[:60]}"
            for function in functions
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in makers
        ]
    assert not wrong, "\n".join([*wrong, "Make it a constant of the module: a call then builds nothing."])


def _from_modules(path: Path) -> set[str]:
    return {node.module or "" for node in _source(path).imports if isinstance(node, ast.ImportFrom)}


def _names_from_msgspec(node: ast.AST) -> list[ast.alias]:
    is_msgspec = isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "msgspec"
    return node.names if is_msgspec and isinstance(node, ast.ImportFrom) else []


def _builds_types(call: ast.Call, imported: set[str]) -> bool:
    """True if the call makes msgspec read the annotations of a Struct class: a decoder, or decoding to a type."""
    function = call.func
    if isinstance(function, ast.Attribute):
        name, is_msgspec = function.attr, ast.unparse(function).startswith("msgspec.")
    else:
        name = function.id if isinstance(function, ast.Name) else ""
        is_msgspec = name in imported
    data = {"Decoder": 0, "decode": 1, "convert": 0}.get(name, len(call.args))
    return is_msgspec and (len(call.args) > data or any(word.arg == "type" for word in call.keywords))


@pytest.mark.parametrize(
    ("line", "builds"),
    [
        ("msgspec.msgpack.Decoder(T)", True),
        ("msgspec.json.decode(data, type=T)", True),
        ("msgspec.convert(plain, T)", True),
        ("Decoder(T)", True),
        ("msgspec.msgpack.Decoder(type=T)", True),
        ("msgspec.msgpack.Decoder(ext_hook=f)", False),
        ("msgspec.msgpack.decode(data)", False),
        ("data.decode('utf-8', 'replace')", False),
        ("convert(expr, INT)", False),
    ],
)
def test_the_search_for_decoders_finds_them(line: str, builds: bool) -> None:
    call = ast.parse(line, mode="eval").body
    assert isinstance(call, ast.Call)
    assert _builds_types(call, {"Decoder"}) == builds
