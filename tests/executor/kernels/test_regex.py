"""Regular expressions compared with Python's `re` and DuckDB, over all forms of texts; refusals, and termination."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, InvalidText, NotSupportedError
from nyala.executor.kernels.texts import regex
from nyala.model.types import BIGINT, BOOLEAN, INT, STRING
from nyala.model.vectors.vector import Const, Dict, Text, Vector
from nyala.sql.functions.regular_expressions import parse, similar_pattern

QUICK = settings(max_examples=examples(150), deadline=None)
TEXTS = st.text("ab_é9 \n界-", max_size=9)
COLUMNS = st.lists(st.none() | TEXTS, min_size=1, max_size=5)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> tuple[str, str]:
    """Draw a pattern of nyala, and the same for Python's `re`. Patterns that match the empty text are not repeated:
    engines differ in the contents of their groups."""
    found = [draw(_pieces(depth)) for _ in range(draw(st.integers(0, 3)))]
    ours, theirs = "".join(a for a, _ in found), "".join(b for _, b in found)
    if draw(st.integers(0, 4)) == 0:
        other = draw(_pieces(depth))
        return f"{ours}|{other[0]}", f"{theirs}|{other[1]}"
    return ours, theirs


ATOMS = [
    *((same, same) for same in ["a", "b", "é", "界", "[^a]", "[a-b9]", r"\-", ".", "[]a]", r"[\d_]"]),
    ("(a)", "(a)"), ("(?:ab|a)", "(?:ab|a)"), (r"\u754c", "界"), (r"\d", "[0-9]"), (r"[^\S]", r"\s"), (r"[\W]", r"\W"),
    (r"\w", r"\w"), (r"\W", r"\W"), (r"\s", r"\s"),
    ("[[:alpha:]]", r"[^\W\d_]"), ("[^[:alpha:]b]", r"[\W\d_]"), ("[[=a=]-b]", "[a-b]"), (r"\x{e9}", "é"),
]  # fmt: skip
EDGES = [("^", r"\A"), ("$", r"\Z"), (r"\y", r"(?a:\b)"), (r"\Y", r"(?!(?a:\b))"), (r"\Z", r"\Z"), ("(?#c)", "")]


@st.composite
def _pieces(draw: st.DrawFn, depth: int) -> tuple[str, str]:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(st.sampled_from(EDGES))
    if kind == 1 and depth:
        inner = draw(patterns(depth - 1))
        mark = draw(st.sampled_from(["(", "(?:"]))
        return f"{mark}{inner[0]})", f"{mark}{inner[1]})"
    ours, theirs = draw(st.sampled_from(ATOMS))
    times = draw(st.sampled_from(["", "", "*", "+", "?", "+?", "*?", "{2}", "{1,2}"]))
    return ours + times, theirs + times


def _is_taken(pattern: tuple[str, str]) -> bool:
    try:
        parse(pattern[0])
    except NotSupportedError:
        return False
    return True


PATTERNS = patterns().filter(_is_taken)


def forms(values: list[str | None]) -> Iterator[Vector]:
    """The same texts in every form that can hold them."""
    array = pa.array(values, pa.string())
    yield Text(STRING, array)
    yield Text(STRING, pa.concat_arrays([pa.array(["é", None], pa.string()), array]).slice(2))
    entries = ["unused", *sorted({v for v in values if v is not None}, reverse=True)]
    codes = np.array([0 if v is None else entries.index(v) for v in values], np.uint8)
    present = np.array([v is not None for v in values])
    yield Dict(STRING, codes, pa.array(entries, pa.string()), None if present.all() else present, ordered=False)
    if len(set(values)) == 1:
        yield Const(STRING, values[0], len(values))


def check(name: str, type_: Any, values: list[str | None], arguments: tuple[Any, ...], expected: list[Any]) -> None:
    constants = [Const(STRING if isinstance(a, str) else BIGINT, a, len(values)) for a in arguments]
    for vector in forms(values):
        found = regex.KERNELS[name](type_, vector, *constants).to_arrow().to_pylist()
        assert found == expected, (name, type(vector).__name__)
    varying = [Text(STRING, c.to_arrow()) if isinstance(c.value, str) else c for c in constants]
    assert regex.KERNELS[name](type_, Text(STRING, pa.array(values, pa.string())), *varying).to_arrow().to_pylist() == (
        expected
    )


def matches(pattern: str, text: str, start: int = 1) -> list[re.Match[str]]:
    """Matches from left to right, each from the end of the previous one; an empty one right behind a match does not
    count."""
    found: list[re.Match[str]] = []
    place = start - 1
    while place <= len(text) and (match := re.compile(pattern, re.DOTALL).search(text, place)):
        is_new = match.end() > match.start() or not found or match.end() > found[-1].end()
        if is_new:
            found.append(match)
        place = match.end() + (match.end() == match.start())
    return found


def of_each(values: list[str | None], function: Any) -> list[Any]:
    return [None if value is None else function(value) for value in values]


@QUICK
@given(PATTERNS, COLUMNS, st.integers(1, 4), st.integers(1, 3), st.integers(0, 2))
def test_every_match_is_where_it_is(
    pattern: tuple[str, str], values: list[str | None], start: int, n: int, group: int
) -> None:
    ours, theirs = pattern

    def nth(text: str) -> re.Match[str] | None:
        found = matches(theirs, text, start)
        return found[n - 1] if len(found) >= n and found[n - 1].re.groups >= group else None

    def place(text: str, end: int) -> int:
        match = nth(text)
        return 0 if match is None else match.span(group)[end] + 1

    check("regexp_match", BOOLEAN, values, (ours,), of_each(values, lambda t: bool(matches(theirs, t))))
    check("regexp_count", INT, values, (ours, start), of_each(values, lambda t: len(matches(theirs, t, start))))
    text_of = of_each(values, lambda t: (match := nth(t)) and match[group])
    check("regexp_substr", STRING, values, (ours, start, n, "", group), text_of)
    for end in (0, 1):
        places = of_each(values, lambda t, end=end: place(t, end))
        check("regexp_instr", INT, values, (ours, start, n, end, "", group), places)


@QUICK
@given(PATTERNS, COLUMNS, st.sampled_from(["", "x", r"<\1>", r"\&\&", r"\\", r"\2é", r"a\q", "\\"]))
def test_the_first_match_or_all_are_replaced(pattern: tuple[str, str], values: list[str | None], new: str) -> None:
    ours, theirs = pattern

    def replaced(text: str, most: int) -> str:
        out, place = "", 0
        for match in matches(theirs, text)[:most]:
            out += text[place : match.start()] + _filled(new, match)
            place = match.end()
        return out + text[place:]

    check("regexp_replace", STRING, values, (ours, new), of_each(values, lambda t: replaced(t, 1)))
    check("regexp_replace", STRING, values, (ours, new, "g"), of_each(values, lambda t: replaced(t, 99)))


def _filled(new: str, match: re.Match[str]) -> str:
    def piece(escape: re.Match[str]) -> str:
        if escape[1] == "\\":
            return "\\"
        if escape[1] == "&":
            return match[0]
        return (match[int(escape[1])] or "") if int(escape[1]) <= match.re.groups else ""

    return re.sub(r"\\([\\&0-9])", piece, new)


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@QUICK
@given(st.text("ab%_|()[]^.-é", max_size=6), COLUMNS)
def test_similar_to_matches_whole_texts(pattern: str, values: list[str | None]) -> None:
    try:
        expected = re.compile(similar_pattern(pattern).replace("[]", r"[\]").replace("[^]", r"[^\]"), re.DOTALL)
        parse(similar_pattern(pattern))
    except (re.error, InvalidText):
        return
    check("similar", BOOLEAN, values, (pattern,), of_each(values, lambda t: expected.search(t) is not None))


@settings(max_examples=examples(40), deadline=None)
@given(st.text("ab.*+?()|[]^$x\\d", max_size=7), st.lists(TEXTS, min_size=1, max_size=4))
def test_duckdb_agrees(pattern: str, texts: list[str]) -> None:
    """DuckDB also runs RE2, and refuses what nyala refuses; `\\x` and sets that open with a bracket are read
    differently."""
    if re.search(r"\\x|\[\^?\]|\[\^?[^\]]*\[|\\$", pattern):
        return
    values = ", ".join("('" + text + "')" for text in texts)
    try:
        query = f"SELECT regexp_matches(t, ?, 's'), regexp_replace(t, ?, '<\\0>', 'gs') FROM (VALUES {values}) v (t)"
        expected = duckdb.connect().execute(query, [pattern, pattern]).fetchall()
    except duckdb.Error:
        with pytest.raises(DataError):
            regex.like(pa.array(texts), pattern)
        return
    try:
        found = regex.like(pa.array(texts), pattern), regex.replace(pa.array(texts), pattern, r"<\0>", "g")
    except InvalidText as error:
        assert "repeat" in str(error) or "escape" in str(error) or "group" in str(error)  # stricter than RE2
        return
    assert list(zip(*(column.to_pylist() for column in found), strict=True)) == expected


@pytest.mark.parametrize(
    ("text", "pattern", "flags", "expected"),
    [
        ("a\nb", "a$", "", False), ("a\nb", "a$", "n", True), ("a\nb", "a.b", "", True), ("a\nb", "a.b", "m", False),
        ("a\nb", "a[^x]b", "n", False), ("a\nb", "a.b", "p", False), ("a\nb", "^b", "p", False),
        ("a\nb", "^b", "w", True),
        ("a\nb", "a.b", "w", True), ("A", "a", "i", True), ("A", "a", "ic", False), ("A", "(?i)a", "", True),
        ("ab", "a b # it", "x", True), ("a\n", "a$", "", False), ("a#", "a[ #]", "x", True),
        ("foo bar", r"\mbar\M", "", True), ("\x01", r"\cA", "", True),
        ("foobar", r"\mbar", "", False), ("a-b", r"\m(?:a|b+)\M-", "", True), ("a{x", "a{x", "", True),
    ],
)  # fmt: skip
def test_flags_and_escapes(text: str, pattern: str, flags: str, expected: bool) -> None:
    assert regex.like(pa.array([text]), pattern, flags).to_pylist() == [expected]


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|aa)+$", "(a*)*c", "(.*)(.*)(.*)(.*)[^a]$", r"(?:a?){500}a{500}$", r"^(\w+\s?)*$"],
)
def test_no_pattern_runs_without_end(pattern: str) -> None:
    texts = pa.array(["a" * 10_000 + "b"])
    assert len(regex.like(texts, pattern)) == 1
    assert len(regex.replace(texts, pattern, "x", "g")) == 1
    assert len(regex.instr(texts, pattern, 2, 1)) == 1


@pytest.mark.parametrize(
    ("expression", "lacking", "caret"),
    [
        (r"'x' ~ '(?=a)'", "lookahead", "'(?=a)'"),
        (r"'x' !~* '(?!a)'", "negative lookahead", "'(?!a)'"),
        (r"regexp_replace('x', '(?<=a)b', '')", "lookbehind", "'(?<=a)b'"),
        (r"regexp_count('x', '(a)\1')", r"back references, \1", r"'(a)\1'"),
        (r"regexp_substr('x', '(?>a)')", "atomic groups", "'(?>a)'"),
        (r"substring('x' FROM 'a\m')", r"lookahead for \m", r"'a\m'"),
        (r"regexp_like('x', '(?P<n>a)(?P=n)')", "back references, (?P=name)", "'(?P<n>a)(?P=n)'"),
    ],
)
def test_what_re2_lacks_is_named_under_a_caret(expression: str, lacking: str, caret: str) -> None:
    with nyala.connect(":memory:") as connection, pytest.raises(NotSupportedError, match="RE2 does not have") as error:
        connection.execute(f"SELECT 1, {expression}")
    message, line, carets = str(error.value).split("\n")
    assert lacking in message
    assert line[carets.index("^") :].startswith(caret)
    assert carets.count("^") == len(caret)


@pytest.mark.parametrize(
    "pattern",
    ["a**", "(", ")", "[a", "*a", "[b-a]", "a{2,1}", "a{1001}", "a{1", r"\q", "[[:no:]]", r"\x{110000}", "(?q)", "\\",
     r"\p{Foo}", "(" * 300 + ")" * 300, "((((a{99}){99}){99}){99})"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidText):
        regex.like(pa.array(["a"]), pattern)


def test_patterns_of_a_column_are_judged_where_they_stand() -> None:
    with nyala.connect(":memory:") as connection:
        query = "SELECT t ~ p FROM (VALUES ('a', 'a'), ('b', '(?=x)')) v (t, p)"
        assert connection.execute(query + " WHERE p = 'a'").fetchall() == [(True,)]
        with pytest.raises(NotSupportedError, match="lookahead"):
            connection.execute(query).fetchall()
        with pytest.raises(InvalidText, match=r"'q' is not a flag.*\n.*\n.*\^"):
            connection.execute("SELECT regexp_like('a', 'a', 'q')")


@pytest.mark.embedded_only("counts the texts that are searched in this process")
@pytest.mark.parametrize(
    "call",
    [
        "t ~ 'a+b'",
        "regexp_replace(t, '(a)(b?)', '<\\2\\1>')",
        "regexp_replace(t, 'a', 'x', 'g')",
        "regexp_count(t, 'a')",
        "regexp_instr(t, 'b')",
        "regexp_substr(t, 'a.')",
        "substring(t FROM '(b).')",
        "t SIMILAR TO '(a|b)%'",
        "t ~ '^$'",
    ],
)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_equal_texts_are_searched_once(monkeypatch: pytest.MonkeyPatch, call: str, is_compiled: bool) -> None:
    """NULL and the empty text are different, although they are numbered alike."""
    texts = [None, "", "ab", "aab", None, "b\u00e9a", "", "ba" * 40, "zz"] * 30
    searched: list[int] = []
    like_matching = regex.matching

    def counted(given: pa.Array, *others: Any) -> pa.Array:
        searched.append(len(given))
        return like_matching(given, *others)

    monkeypatch.setattr(regex, "matching", counted)
    if not is_compiled:
        monkeypatch.setattr("nyala.executor.kernels.groups.hash_groups.compiled", None)
    found = []
    for least in (10**9, 2):
        monkeypatch.setattr(regex, "_NUMBERED_ROWS", least)
        with nyala.connect(":memory:") as connection:
            connection.execute("CREATE TABLE r (k INT PRIMARY KEY, t VARCHAR)")
            # A suffix makes each batch's texts plain ones, without a dictionary.
            connection.load("r", pa.table({"k": pa.array(range(len(texts)), pa.int32()), "t": texts}))
            query = f"SELECT k, {call} FROM (SELECT k, substr(t || 'x', 1, length(t)) AS t FROM r) AS s ORDER BY k"
            found.append(connection.execute(query).fetchall())
    assert found[0] == found[1]
    if searched:
        assert searched[-1] < len(texts)
