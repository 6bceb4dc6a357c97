"""State tables: what a module's page says is what its code holds, and no object moves past it."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from itertools import product
from pathlib import Path

import nyala
import pytest
from nyala.model.state_table import StateTable

ROOT = Path(nyala.__file__).parent
MODULES = sorted(
    "nyala." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for room in ("cluster", "doors", "driver")
    for path in (ROOT / room).rglob("*.py")
    if "= StateTable(" in path.read_text(encoding="utf-8")
)
ROW = re.compile(r"^ *\| ([A-Z_]+) \| (.+) \| ([A-Z_]+) \|$", re.MULTILINE)


def test_there_are_tables():
    assert {name.rpartition(".")[2] for name in MODULES} >= {
        "token_scan",
        "scanners",
        "stages",
        "health",
        "slots",
        "server",
        "transactions",
    }


@pytest.mark.parametrize("name", MODULES)
def test_the_page_shows_the_table(name):
    module = import_module(name)
    shown = {(state, event): following for state, event, following in ROW.findall(module.__doc__)}
    assert shown == {(state.name, event): after.name for (state, event), after in module.STATES.moves.items()}


@pytest.mark.parametrize("name", MODULES)
def test_every_state_is_reached_and_every_move_can_be_made(name):
    table: StateTable = import_module(name).STATES
    reached, new = set(), {table.first}
    while new:
        reached |= new
        new = {table.checked(state, after) for (state, _), after in table.moves.items() if state in reached} - reached
    assert reached == set(type(table.first))


@pytest.mark.parametrize("name", MODULES)
def test_no_move_is_made_that_is_not_in_the_table(name):
    table: StateTable = import_module(name).STATES
    there = {(state, after) for (state, _), after in table.moves.items()}
    for pair in set(product(type(table.first), repeat=2)) - there:
        with pytest.raises(AssertionError, match=f"nothing leads from {pair[0].name} to {pair[1].name}"):
            table.checked(*pair)


@pytest.mark.parametrize("name", MODULES)
def test_a_state_is_set_in_one_place(name):
    """`STATES.checked(self.x, ...)` stands in one method; elsewhere `self.x`, or the field `x` of a dataclass, is
    set to the first state alone."""
    tree = ast.parse(Path(import_module(name).__file__).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    (setter,) = [function for function in functions if "STATES.checked(" in ast.unparse(function)]
    (attribute,) = re.findall(r"STATES\.checked\((self\.\w+),", ast.unparse(setter))
    sets = [
        (function.name, ast.unparse(node.value))
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if ast.unparse(target) == attribute
    ]
    fields = [
        (f"self.{ast.unparse(node.target)}", ast.unparse(node.value))
        for scope in ast.walk(tree)
        if isinstance(scope, ast.ClassDef)
        for node in scope.body
        if isinstance(node, ast.AnnAssign) and node.value is not None
    ]
    first = [value for function, value in sets if function != setter.name]
    assert first + [value for field, value in fields if field == attribute] == ["STATES.first"]
