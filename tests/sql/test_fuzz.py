"""For any text, only nyala's errors are raised; accepted statements can be written and read again."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import nyala
from bound_text import describe
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.sql import bind, generate, parse

GOLDEN = Path(__file__).parent / "golden"
TOKEN = re.compile(r"\s+|'(?:[^']|'')*'|\"[^\"]*\"|\w+|<=|>=|<>|::|\|\||.", re.DOTALL)
BLOCK = re.compile(r"(?P<command>(?:^(?!---$|#).+\n)+)^---\n", re.MULTILINE)
SPICE = [
    "(", ")", ",", "'", '"', "select", "from", "null", "1", "-1", "0.5", "'x'", "*", "order by", "group by", "is",
    "not", "in", "case", "end", "union", "join", "::", "date", "interval", ".", ";", "$1", "?", ":a", "as",
    "distinct", "values", "exists", "like", "between", "and", "\\", "é", "[", "{", "@", "#", "--", "/*", "having",
    "over ()", "any", "limit",
]  # fmt: skip


def _corpus() -> list[str]:
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((Path(nyala.__file__).parent / "tpch/query_texts").glob("*.sql"))
    ]
    for name in ("bound.txt", "round_trip.txt", "errors.txt"):
        texts += [m["command"] for m in BLOCK.finditer((GOLDEN / name).read_text(encoding="utf-8"))]
    return texts


CORPUS = _corpus()


def _run(text: str, catalog: Any) -> None:
    """Parse, write, read, bind and describe; anything but nyala's own errors escapes and fails the test."""
    try:
        statements = parse(text)
    except nyala.errors.Error as error:
        str(error)
        return
    for parsed in statements:
        try:
            describe(bind(parsed, catalog))
        except nyala.errors.Error as error:
            assert not isinstance(error, nyala.errors.InternalError)
            str(error)
        else:
            (again,) = parse(generate(parsed.tree))
            assert again.tree == parsed.tree


def _mutate(text: str, rng: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(len(tokens)) if tokens else 0
        match rng.randrange(5):
            case 0:
                del tokens[i : i + rng.randint(1, 3)]
            case 1 if tokens:
                j = rng.randrange(len(tokens))
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 2:
                tokens.insert(i, f" {rng.choice(SPICE)} ")
            case 3 if tokens:
                tokens[i] = f" {rng.choice(SPICE)} "
            case 4:
                del tokens[i:]
    return "".join(tokens)


@settings(max_examples=examples(600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=st.sampled_from(CORPUS), seed=st.integers(0, 2**32))
def test_mutated_statements_raise_only_nyala_errors(catalog: Any, text: str, seed: int) -> None:
    _run(_mutate(text, random.Random(seed)), catalog)


@settings(max_examples=examples(200), deadline=None)
@given(
    words=st.lists(
        st.sampled_from([*SPICE, "nation", "n_name", "kinds", "i", "m", "day", "sum(i)", "count(*)"]), max_size=14
    )
)
def test_word_salad_raises_only_nyala_errors(catalog: Any, words: list[str]) -> None:
    _run("select " + " ".join(words), catalog)


@settings(max_examples=examples(200), deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_raises_only_nyala_errors(catalog: Any, text: str) -> None:
    _run(text, catalog)
