"""Regular expressions: `~`, SIMILAR TO, regexp_replace and their like.

RE2 (in Arrow) runs over whole columns; patterns that it does not know (back references, look-around) run in Python's
`re`, and so do the functions that need more than RE2 answers, once per distinct text. Alternatives are tried from left
to right, as in Perl; POSIX, and so PostgreSQL, takes the longest.

Flags: `g` all matches, `i` ignore case, `c` do not, `n` or `m` newline-sensitive (`.` stops at line ends, `^` and `$`
match there), `s` not (the default), `x` blanks and comments in the pattern are ignored.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, InvalidText
from ...storage.types import DataType
from ...storage.vector import Const, Text, Vector
from .distinct import as_kernel, per_distinct
from .text import per_constant

_FLAGS = {"i": re.IGNORECASE, "n": re.MULTILINE, "m": re.MULTILINE, "x": re.VERBOSE}
_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "print": " -~",
    "graph": "!-~", "word": r"\w",
}  # fmt: skip


@lru_cache(maxsize=512)
def compiled(pattern: str, flags: str = "") -> re.Pattern[str]:
    """The pattern for Python's `re`; `InvalidText` where it is not one, or a flag is unknown."""
    options = re.NOFLAG if set(flags) & {"n", "m"} else re.DOTALL
    for flag in flags:
        if flag not in "gicnmsx":
            raise InvalidText(f"'{flag}' is not a flag of regular expressions; there are g, i, c, n, s and x")
        options |= _FLAGS.get(flag, re.NOFLAG)
    if "c" in flags:
        options &= ~re.IGNORECASE
    plain = re.sub(r"\[:(\w+):\]", lambda m: _CLASSES.get(m[1], m[0]), pattern)
    plain = plain.replace(r"\m", r"\b(?=\w)").replace(r"\M", r"\b(?<=\w)").replace(r"\y", r"\b")
    try:
        return re.compile(plain, options)
    except (re.error, OverflowError) as error:
        raise InvalidText(f"'{pattern}' is not a regular expression: {error}") from None


def _for_re2(pattern: str, flags: str) -> str:
    """The pattern with its flags inside; Arrow compiles it or refuses."""
    newline = "m" if set(flags) & {"n", "m"} else "s"
    case = "i" if "i" in flags and "c" not in flags else ""
    return f"(?{newline}{case}){pattern}"


def _is_plain(pattern: str, flags: str) -> bool:
    """Do RE2 and `compiled` read the pattern alike?"""
    compiled(pattern, flags)
    return "x" not in flags and not re.search(r"\\[mMyZ\d]|\(\?[=!<P]|\$", pattern)


def matches(value: Vector, pattern: Vector, type_: DataType, flags: str = "") -> Vector:
    """Does the pattern match somewhere in the text?"""
    return per_constant(type_, value, (pattern,), lambda texts, expression: _matching(texts, expression, flags))


def _matching(texts: pa.Array, pattern: str, flags: str) -> pa.Array:
    if _is_plain(pattern, flags):
        try:
            return pc.match_substring_regex(texts, _for_re2(pattern, flags))
        except pa.ArrowInvalid:
            pass
    return _each(texts, pa.bool_(), lambda text: compiled(pattern, flags).search(text) is not None)


def _each(texts: pa.Array, type_: pa.DataType, function: Any) -> pa.Array:
    """A function of each distinct text."""
    encoded = pc.dictionary_encode(texts)
    answers = pa.array([function(text) for text in encoded.dictionary.to_pylist()], type_)
    return answers.take(encoded.indices)


def like(type_: DataType, value: Vector, pattern: Vector, flags: Vector | None = None) -> Vector:
    """`regexp_like(text, pattern [, flags])`."""
    if flags is None:
        return matches(value, pattern, type_)
    if isinstance(flags, Const):
        return matches(value, pattern, type_, flags.value)
    return per_distinct(
        lambda text, expression, word: compiled(expression, word).search(text) is not None,
        type_,
        (value, pattern, flags),
    )


# ---- SIMILAR TO ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def similar_pattern(pattern: str, escape: str = "\\") -> str:
    """A pattern of SIMILAR TO as a regular expression for the whole text.

    >>> similar_pattern("%(b|d)%")
    '^(?:.*(?:b|d).*)$'
    """
    out: list[str] = []
    chars = iter(pattern)
    bracket = False
    for char in chars:
        if escape and char == escape:
            following = next(chars, None)
            if following is None:
                raise DataError(f"the SIMILAR TO pattern {pattern!r} ends in an escape character")
            out.append(re.escape(following))
        elif bracket:
            bracket = char != "]"
            out.append("\\\\" if char == "\\" else char)
        elif char == "[":
            bracket = True
            out.append(char)
        else:
            out.append({"%": ".*", "_": ".", "(": "(?:", ".": r"\.", "^": r"\^", "$": r"\$"}.get(char, char))
    return f"^(?:{''.join(out)})$"


def similar(type_: DataType, value: Vector, pattern: Vector, escape: Vector | None = None) -> Vector:
    """`value SIMILAR TO pattern [ESCAPE escape]`: the whole text must match."""
    others = (pattern,) if escape is None else (pattern, escape)

    def kernel(texts: pa.Array, expression: str, mark: str = "\\") -> pa.Array:
        regex = similar_pattern(expression, mark)
        search = compiled(rf"\A{regex[1:-1]}\Z")
        return _each(texts, pa.bool_(), lambda text: search.search(text) is not None)

    return per_constant(type_, value, others, kernel)


# ---- replacing and extracting ----------------------------------------------------------------------------------------


def replace(type_: DataType, value: Vector, pattern: Vector, new: Vector, flags: Vector | None = None) -> Vector:
    r"""`regexp_replace`: the first match, with flag `g` all of them; `\1` to `\9` are groups, `\&` the whole match."""
    others = (pattern, new) if flags is None else (pattern, new, flags)
    return per_constant(type_, value, others, _replacing)


def _replacing(texts: pa.Array, pattern: str, new: str, flags: str = "") -> pa.Array:
    count = 0 if "g" in flags else 1
    if _is_plain(pattern, flags) and not re.search(r"\\[^0-9&\\]|\\$", new):
        try:
            rewritten = new.replace(r"\&", r"\0")
            limit = {} if count == 0 else {"max_replacements": 1}
            return pc.replace_substring_regex(texts, _for_re2(pattern, flags), rewritten, **limit)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    search = compiled(pattern, flags)
    parts = _replacement(new)
    return _each(texts, texts.type, lambda text: search.sub(lambda m: _filled(parts, m), text, count))


def _replacement(text: str) -> list[str | int]:
    r"""Plain pieces and group numbers; `\0` counts as `\&`."""
    out: list[str | int] = [""]
    chars = iter(text)
    for char in chars:
        following = next(chars, "\\") if char == "\\" else None
        if following is not None and (following.isdigit() or following == "&"):
            out += [0 if following == "&" else int(following), ""]
        else:
            out[-1] = str(out[-1]) + (char if following is None else following)
    return out


def _filled(parts: list[str | int], match: re.Match[str]) -> str:
    count = match.re.groups
    return "".join(p if isinstance(p, str) else (match[p] or "") if p <= count else "" for p in parts)


def count(text: str, pattern: str, start: int = 1, flags: str = "") -> int:
    """`regexp_count`: how many matches there are from a position on."""
    return sum(1 for _ in compiled(pattern, flags).finditer(text, _from(start)))


def instr(text: str, pattern: str, start: int = 1, n: int = 1, end: int = 0, flags: str = "", group: int = 0) -> int:
    """`regexp_instr`: where the nth match begins (`end` 1: the position behind it); 0 without one."""
    match = _nth(text, pattern, start, n, flags)
    if match is None or _group(match, group) is None:
        return 0
    return (match.end(group) if end else match.start(group)) + 1


def substr(text: str, pattern: str, start: int = 1, n: int = 1, flags: str = "", group: int = 0) -> str | None:
    """`regexp_substr`: the nth match, or a group of it; None without one."""
    match = _nth(text, pattern, start, n, flags)
    return None if match is None else _group(match, group)


def capture(text: str, pattern: str) -> str | None:
    """`substring(text FROM pattern)`: the first group where there is one, else the match."""
    match = compiled(pattern).search(text)
    return None if match is None else match[min(1, match.re.groups)]


def _group(match: re.Match[str], group: int) -> str | None:
    return match[group] if 0 <= group <= match.re.groups else None


def _from(start: int) -> int:
    if start < 1:
        raise DataError(f"a search cannot start at position {start}; the first is 1")
    return start - 1


def _nth(text: str, pattern: str, start: int, n: int, flags: str) -> re.Match[str] | None:
    if n < 1:
        raise DataError(f"there is no match number {n}; the first is 1")
    found = compiled(pattern, flags).finditer(text, _from(start))
    return next((match for index, match in enumerate(found, 1) if index == n), None)


def first(type_: DataType, value: Vector, pattern: Vector) -> Vector:
    """`regexp_substr(text, pattern)`, over a whole column where RE2 knows the pattern."""
    if isinstance(pattern, Const) and pattern.value is not None and _is_plain(pattern.value, ""):
        try:
            found = pc.extract_regex(value.to_arrow(), _for_re2(f"(?P<found>{pattern.value})", ""))
        except pa.ArrowInvalid:
            found = None
        if found is not None:
            return Text(type_, found.field("found") if found.null_count == 0 else pc.struct_field(found, "found"))
    return per_distinct(substr, type_, (value, pattern))


def _substr(type_: DataType, *args: Vector) -> Vector:
    return first(type_, *args) if len(args) == 2 else per_distinct(substr, type_, args)


KERNELS: dict[str, Any] = {
    "regexp_match": lambda type_, value, pattern: matches(value, pattern, type_),
    "regexp_imatch": lambda type_, value, pattern: matches(value, pattern, type_, "i"),
    "regexp_like": like,
    "similar": similar,
    "regexp_replace": replace,
    "regexp_count": as_kernel(count),
    "regexp_instr": as_kernel(instr),
    "regexp_substr": _substr,
    "regexp_capture": as_kernel(capture),
}
FALLIBLE = frozenset(KERNELS)
