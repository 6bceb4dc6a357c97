r"""Translates regular expressions to Java's `Pattern`.

nyala parses PostgreSQL's expressions and rewrites them for RE2 (`sql.functions.regular_expressions`); that text, in
which nearly every special character is escaped, is rewritten once more:

    RE2                         Java
    (?s:...)  (?im:...)         (?ds:...)  (?diu:...)      only \n ends a line; case of all scripts
    $  ^                        \z \A; in lines (?=\n|\z) (?<=\n|\A)
    \b \B                       looks at ASCII words to both sides
    [:xdigit:]                  \p{XDigit}
    (?P<g1>...)                 (...)

Patterns must be constant. Differences that cannot be translated are rejected: switches within the pattern, classes of
scripts, matches of the empty text if there may be several, optional groups whose text is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ....sql.expressions import Call, Literal
from ....sql.functions.regular_expressions import Regex, parse, similar_pattern
from .tree import Tree, again, call, case, cast, is_null, not_supported, null, number, plus, string

Writer = Callable[[Call, list[Tree]], Tree]

_WORD: Final = "[0-9A-Za-z_]"
_EDGE: Final = f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_NO_EDGE: Final = f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"
_POSIX: Final = {"xdigit": "XDigit", "blank": "Blank", "cntrl": "Cntrl", "ascii": "ASCII", "punct": "Punct"}
_TOKEN: Final = re.compile(
    r"\\x\{[0-9a-f]+\}|\\[pP]\{[^}]*\}|\\[pP].|\\.|\[:(?P<posix>[a-z]+):\]|\(\?P<g\d+>|\(\?(?P<flags>[imsU-]*):?|.",
    re.DOTALL,
)


def java_pattern(written: str) -> str:
    r"""RE2's text as Java's.

    >>> java_pattern(parse("^a.*$").plain)
    '(?ds:\\Aa.*\\z)'
    """
    out: list[str] = []
    lines, bracket = False, False
    for position, found in enumerate(_TOKEN.finditer(written)):
        token = found[0]
        if position == 0:
            flags = found["flags"]
            lines = "m" in flags
            out.append(f"(?d{flags.replace('m', '').replace('i', 'iu')}:")
            continue
        if found["flags"]:
            raise not_supported("a regular expression with switches within it")
        if token.startswith(("\\p{", "\\P{")) and len(token) > len(r"\p{Lu}"):
            raise not_supported(f"a regular expression with the class {token}")
        if bracket:
            bracket = token != "]"
            out.append(f"\\p{{{_POSIX[found['posix']]}}}" if found["posix"] else token)
            continue
        bracket = token == "["
        out.append(_outside(token, lines))
    return "".join(out)


def _outside(token: str, lines: bool) -> str:
    if token.startswith("(?P<"):
        return "("
    edges = {
        "^": r"(?:\A|(?<=\n))" if lines else r"\A",
        "$": r"(?=\n|\z)" if lines else r"\z",
        r"\b": _EDGE,
        r"\B": _NO_EDGE,
    }
    return edges.get(token, token)


def _constant(expr: Call, place: int, default: str = "") -> str:
    """A constant text among the arguments."""
    if place >= len(expr.args):
        return default
    arg = expr.args[place]
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise not_supported(f"{expr.function}() with a pattern or flags that are not constant")
    return arg.value


def _only(expr: Call, place: int, value: int) -> None:
    """Rejects an argument that is given and is not its default."""
    if place < len(expr.args):
        arg = expr.args[place]
        if not (isinstance(arg, Literal) and arg.value == value):
            raise not_supported(f"{expr.function}() with argument {place + 1} other than {value}")


def _is_null(expr: Call) -> bool:
    return any(isinstance(arg, Literal) and arg.value is None for arg in expr.args)


def _written(write: Writer) -> Writer:
    """Wraps a writer: NULL if a constant argument is NULL."""
    return lambda expr, args: null(expr.type) if _is_null(expr) else write(expr, args)


def _never_empty(expr: Call, regex: Regex) -> None:
    """Rejects patterns with empty matches: RE2 and Java count those next to other matches differently."""
    if pc.match_substring_regex(pa.array([""]), regex.plain)[0].as_py():
        raise not_supported(f"{expr.function}() with a pattern that may match nothing")


def _sure_groups(expr: Call, regex: Regex) -> None:
    """Rejects optional groups: Spark returns '' for a group that did not participate, and nyala NULL."""
    if re.search(r"[|*]|\{0|\)\?|(?<!\()\?", regex.plain):
        raise not_supported(f"{expr.function}() of a group that may take no part in a match")


def _like(ignore_case: bool) -> Writer:
    def write(expr: Call, args: list[Tree]) -> Tree:
        flags = _constant(expr, 2) + ("i" if ignore_case else "")
        return call("regexp_like", args[0], string(java_pattern(parse(_constant(expr, 1), flags).plain)))

    return write


def _similar(expr: Call, args: list[Tree]) -> Tree:
    pattern = similar_pattern(_constant(expr, 1), _constant(expr, 2, "\\"))
    return call("regexp_like", args[0], string(java_pattern(parse(pattern).plain)))


def _replace(expr: Call, args: list[Tree]) -> Tree:
    flags = _constant(expr, 3)
    regex = parse(_constant(expr, 1), flags)
    pattern = java_pattern(regex.capturing)
    if "g" in flags:
        _never_empty(expr, regex)
        return call("regexp_replace", args[0], string(pattern), string(_replacement(_constant(expr, 2), regex, 0)))
    # The text before the first match is part of the single match of the whole.
    whole = rf"(?s:\A(.*?))({pattern})"
    new = "$1" + _replacement(_constant(expr, 2), regex, 2)
    return call("regexp_replace", args[0], string(whole), string(new))


def _replacement(text: str, regex: Regex, shift: int) -> str:
    r"""`\1` and `\&` in Java's syntax, with group numbers increased by `shift`; any other backslash is literal."""
    out: list[str] = []
    chars = iter(text)
    for char in chars:
        following = next(chars, "\\") if char == "\\" else ""
        if following and following in "0123456789&":
            group = 0 if following == "&" else int(following)
            if group <= regex.groups:
                # Digits after a group number would be parsed as part of it; a group name ends unambiguously.
                out.append(f"${group + shift}" if shift == 0 or group else f"${shift}")
                out.append("\0")
        else:
            out.append(_plain(following or char) if not following or following == "\\" else _plain("\\" + following))
    found = "".join(out)
    if re.search(r"\x00[0-9]", found):
        raise not_supported("a replacement in which a digit follows a group")
    return found.replace("\0", "")


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace("$", "\\$")


def _substr(expr: Call, args: list[Tree]) -> Tree:
    """regexp_substr(text, pattern, start, n, flags, group)."""
    _only(expr, 2, 1)
    regex = parse(_constant(expr, 1), _constant(expr, 4))
    group = _count(expr, 5, 0)
    return _nth(expr, args[0], regex, _count(expr, 3, 1), group)


def _capture(expr: Call, args: list[Tree]) -> Tree:
    """The first group of the first match, or the whole match if there is no group."""
    regex = parse(_constant(expr, 1))
    return _nth(expr, args[0], regex, 1, 1 if regex.groups else 0)


def _nth(expr: Call, value: Tree, regex: Regex, n: int, group: int) -> Tree:
    if group > regex.groups or n < 1:
        raise not_supported(f"{expr.function}() of match {n}, group {group}")
    if group:
        _sure_groups(expr, regex)
    if n > 1:
        _never_empty(expr, regex)
    pattern = java_pattern(regex.capturing)
    return call("try_element_at", call("regexp_extract_all", value, string(pattern), number(group)), number(n))


def _count(expr: Call, place: int, default: int) -> int:
    if place >= len(expr.args):
        return default
    arg = expr.args[place]
    if not isinstance(arg, Literal):
        raise not_supported(f"{expr.function}() with argument {place + 1} that is not constant")
    return int(arg.value)


def _counted(expr: Call, args: list[Tree]) -> Tree:
    """regexp_count(text, pattern, start, flags)."""
    _only(expr, 2, 1)
    regex = parse(_constant(expr, 1), _constant(expr, 3))
    _never_empty(expr, regex)
    return call("size", call("regexp_extract_all", args[0], string(java_pattern(regex.plain)), number(0)))


def _instr(expr: Call, args: list[Tree]) -> Tree:
    """regexp_instr(text, pattern, start, n, end, flags, group)."""
    for place, default in ((2, 1), (3, 1), (4, 0), (6, 0)):
        _only(expr, place, default)
    pattern = java_pattern(parse(_constant(expr, 1), _constant(expr, 5)).plain)
    # The text before the first match, and whether there is a match.
    before = call("regexp_extract", again(args[0]), string(rf"(?s:\A(.*?))(?:{pattern})"), number(1))
    found = call("regexp_like", args[0], string(pattern))
    place = plus(call("char_length", before), number(1))
    return case((is_null(again(args[0])), null(expr.type)), (found, place), default=cast(number(0), expr.type))


WRITERS: Mapping[str, Writer] = {
    name: _written(writer)
    for name, writer in {
        "regexp_match": _like(False),
        "regexp_imatch": _like(True),
        "regexp_like": _like(False),
        "similar": _similar,
        "regexp_replace": _replace,
        "regexp_substr": _substr,
        "regexp_capture": _capture,
        "regexp_count": _counted,
        "regexp_instr": _instr,
    }.items()
}
