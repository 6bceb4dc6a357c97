"""Binds operators that match texts against patterns: LIKE, ILIKE, SIMILAR TO, `~`, and their ESCAPE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import NotSupportedError, TypeMismatch
from ....model.types import BOOLEAN, STRING, Kind
from ... import functions
from ...array_text import parse_array
from ...coercion import convert
from ...expressions import Call, Expr, Literal
from ..context import Frame, only, unsupported
from .catalog_syntax import quantified_array
from .comparisons import connect

_NAMES = {exp.Like: ("like", "LIKE"), exp.ILike: ("ilike", "ILIKE"), exp.SimilarTo: ("similar", "SIMILAR TO"),
          exp.RegexpLike: ("regexp_match", "~"), exp.RegexpILike: ("regexp_imatch", "~*")}  # fmt: skip


def like(node: Any, frame: Frame) -> Expr:
    """`value LIKE pattern`, and the other pattern operators."""
    only(node, "this", "expression", "negate")
    found = quantified_array(node.expression)
    if found is not None:
        return _match_any(node, *found, frame)
    return _match(node, (frame.bind(node.expression),), frame)


def _match_any(node: Any, word: str, array: Any, frame: Frame) -> Expr:
    """`value LIKE ANY (array)`, of a constant array."""
    bound = frame.bind(array)
    if not isinstance(bound, Literal) or not isinstance(bound.value, str):
        raise NotSupportedError(f"{_NAMES[type(node)][1]} {word} needs a constant array, such as ARRAY['a%', 'b%']")
    patterns = [Literal(STRING, each is None, each) for each in parse_array(bound.value)]
    tests = tuple(_match(node, (pattern,), frame) for pattern in patterns)
    if not tests:
        return Literal(BOOLEAN, False, word == "ALL")
    return tests[0] if len(tests) == 1 else connect("and" if word == "ALL" else "or", tests)


def escape(node: exp.Escape, frame: Frame) -> Expr:
    """`value LIKE pattern ESCAPE 'c'`: a constant pattern is rewritten to escape with a backslash."""
    test = node.this
    if not isinstance(test, exp.Like | exp.ILike | exp.SimilarTo):
        raise unsupported(node)
    pattern, mark = frame.bind(test.expression), frame.bind(node.expression)
    if not isinstance(mark, Literal):
        raise NotSupportedError("ESCAPE needs a constant character")
    if not (mark.value is None or isinstance(mark.value, str)) or len(mark.value or "") > 1:
        raise TypeMismatch("ESCAPE needs one character, or none for no escape")
    if isinstance(test, exp.SimilarTo):
        return _match(test, (pattern, mark), frame)
    if mark.value is None:
        return _match(test, (Literal(STRING, True, None),), frame)
    pattern = _joined(pattern)
    if not isinstance(pattern, Literal):
        raise NotSupportedError("LIKE ... ESCAPE needs a constant pattern")
    if isinstance(pattern.value, str):
        pattern = replace(pattern, value=_with_backslashes(pattern.value, mark.value))
    return _match(test, (pattern,), frame)


def _joined(pattern: Expr) -> Expr:
    """Folds constants joined by `||`, parameters included, into one constant."""
    if not isinstance(pattern, Call) or pattern.function != "concat":
        return pattern
    values = [part.value for part in pattern.args if isinstance(part, Literal)]
    if len(values) < len(pattern.args) or not all(value is None or isinstance(value, str) for value in values):
        return pattern
    text = None if None in values else "".join(str(value) for value in values)
    return Literal(STRING, text is None, text)


def _with_backslashes(pattern: str, mark: str) -> str:
    """The pattern with its escape character replaced by a backslash."""
    out: list[str] = []
    chars = iter(pattern)
    for char in chars:
        if char == mark:
            following = next(chars, None)
            if following is None:
                out.append("\\")  # escapes nothing; matching reports it
            else:
                out.append("\\" + following if following in ("%", "_", "\\") else following)
        else:
            out.append("\\\\" if char == "\\" else char)
    return "".join(out)


def _match(node: Any, patterns: tuple[Expr, ...], frame: Frame) -> Expr:
    function, shown = _NAMES[type(node)]
    texts = [convert(e, STRING) if e.type.kind is Kind.NULL else e for e in (frame.bind(node.this), *patterns)]
    for text in texts:
        if text.type.kind is not Kind.STRING:
            raise TypeMismatch(f"{shown} needs texts, not a value of type {text.type}")
    test = functions.call(BOOLEAN, function, *texts)
    for _, check in functions.pattern_checks(test):
        with frame.context.at(node.expression):
            check()
    return Call(BOOLEAN, test.nullable, "not", (test,)) if node.args.get("negate") else test


HANDLERS = {**dict.fromkeys(_NAMES, like), exp.Escape: escape}
