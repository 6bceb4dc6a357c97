r"""CAST and TRY_CAST between all of nyala's types.

from            to            translation
FLOAT, DOUBLE   integers      rint first: nyala rounds half to even, Spark truncates
DECIMAL         integers      to DECIMAL(p, 0) first: half away from zero, where Spark truncates
FLOAT, DOUBLE   STRING        Python's and PostgreSQL's digits (1e+16, 2) from Java's (1.0E16, 2.0)
STRING          BOOLEAN       only nyala's words
STRING          dates, floats only nyala's spellings; Spark accepts more, which are an error here
STRING          BINARY        `\x6162` by its digits, `\\` a backslash; no octal escapes
STRING          VARCHAR(n)    truncated
DOUBLE          FLOAT         too large a number is an error, and Infinity in Spark
"""

from __future__ import annotations

from sqlglot import exp

from ....model.types import BINARY, DECIMAL, DOUBLE, STRING, DataType, Kind
from ....sql.expressions import Cast
from .tree import (
    Tree,
    again,
    both,
    call,
    case,
    cast,
    error,
    infix,
    is_null,
    less,
    negated,
    not_supported,
    null,
    number,
    string,
    try_cast,
)

_TRUE = ("true", "t", "yes", "on", "1")
_FALSE = ("false", "f", "no", "off", "0")
_SPELLINGS = {
    Kind.FLOAT: r"(?i)^\s*[+-]?(inf|infinity|nan|[0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?)\s*$",
    Kind.DATE: r"^\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}\s*$",
    Kind.TIMESTAMP: r"^\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?\s*$",
}
_SPELLINGS[Kind.DOUBLE] = _SPELLINGS[Kind.FLOAT]


def write(expr: Cast, arg: Tree) -> Tree:
    """`CAST(arg AS type)`, or TRY_CAST if the bound cast is `safe`."""
    source, target = expr.arg.type, expr.type
    if Kind.INTERVAL in (source.kind, target.kind) and source != target and source.kind is not Kind.NULL:
        raise not_supported(f"CAST from {source} to {target}")
    return converted(arg, source, target, expr.safe)


def converted(arg: Tree, source: DataType, target: DataType, safe: bool = False) -> Tree:
    """A value converted from one type to another."""
    to = try_cast if safe else cast
    if target.kind is Kind.STRING:
        return _shortened(as_text(arg, source, safe), target)
    if source.kind is Kind.STRING:
        return _from_text(arg, target, safe)
    if source.is_float and target.is_integer:
        return to(call("rint", arg), target)
    if source.is_decimal and target.is_integer:
        whole = (source.precision or 38) - (source.scale or 0) + 1
        return to(to(arg, DECIMAL(min(38, whole), 0)), target)
    if source.kind is Kind.DOUBLE and target.kind is Kind.FLOAT:
        return _narrowed(arg, safe)
    return to(arg, target)


def _narrowed(arg: Tree, safe: bool) -> Tree:
    infinite = cast(string("Infinity"), DOUBLE)
    found = cast(again(arg), "FLOAT")
    lost = both(infix(exp.EQ, call("abs", again(found)), infinite), less(call("abs", arg), again(infinite)))
    instead = null("FLOAT") if safe else error("a number is out of range for FLOAT", "FLOAT")
    return call("if", lost, instead, found)


# ---- to text ---------------------------------------------------------------------------------------------------------


def as_text(arg: Tree, source: DataType, safe: bool = False) -> Tree:
    """A value as nyala writes it."""
    if source.kind is Kind.STRING:
        return arg
    if source.kind is Kind.FLOAT:
        raise not_supported("a FLOAT as a text (CAST it to DOUBLE first)")
    if source.kind is Kind.DOUBLE:
        return _float_text(arg)
    if source.kind is Kind.BINARY:
        return call("try_validate_utf8" if safe else "validate_utf8", cast(arg, STRING))
    return cast(arg, STRING)


def _float_text(arg: Tree) -> Tree:
    """The fewest digits that identify the number, up to 17; plain from 1e-4 to below 1e16, else with an exponent."""
    written = [call("format_string", string(f"%.{digits}e"), again(arg)) for digits in (14, 15, 16)]
    means = [infix(exp.EQ, try_cast(again(text), DOUBLE), again(arg)) for text in written]
    shortest = case((means[0], written[0]), (means[1], written[1]), default=written[2])
    size = call("abs", again(arg))
    plain = both(infix(exp.GTE, size, _double("1e-4")), less(again(size), _double("1e16")))
    digits = call("regexp_replace", cast(cast(again(shortest), DECIMAL(38, 21)), STRING), string(r"\.?0+$"), string(""))
    minus = call("startswith", again(written[0]), string("-"))
    return case(
        (is_null(again(arg)), null(STRING)),
        (infix(exp.EQ, again(arg), number(0)), call("if", minus, string("-0"), string("0"))),
        (plain, digits),
        default=call("regexp_replace", shortest, string(r"\.?0+e"), string("e")),
    )


def _double(text: str) -> Tree:
    return cast(string(text), DOUBLE)


def _shortened(text: Tree, target: DataType) -> Tree:
    return text if target.length is None else call("substring", text, number(1), number(target.length))


# ---- from text -------------------------------------------------------------------------------------------------------


def _from_text(arg: Tree, target: DataType, safe: bool) -> Tree:
    to = try_cast if safe else cast
    if target.kind is Kind.BOOLEAN:
        return _truth(arg, safe)
    if target.kind is Kind.BINARY:
        return _bytes(arg, safe)
    spelling = _SPELLINGS.get(target.kind)
    if spelling is None:
        return to(arg, target)
    wrong = negated(call("regexp_like", again(arg), string(spelling)))
    refused = null(target) if safe else error(f"a text is not a {target}, or not in a form that Spark accepts", target)
    return call("if", wrong, refused, to(arg, target))


def _bytes(arg: Tree, safe: bool) -> Tree:
    """The result of `model.types.bytes_of` for a text; an octal escape, whose byte need not be text, is an error."""
    digits = call("regexp_replace", call("substring", again(arg), number(3)), string(r"\s"), string(""))
    plain = call("replace", again(arg), string("\\\\"), string("\\"))
    wrong = "a text is not a BINARY, or has octal escapes, unsupported on Spark: write \\x and hexadecimal digits"
    return case(
        (is_null(again(arg)), null(BINARY)),
        (infix(exp.EQ, call("instr", again(arg), string("\\")), number(0)), cast(again(arg), BINARY)),
        (call("regexp_like", again(arg), string(r"^\\[xX](\s*[0-9a-fA-F]{2})*\s*$")), call("unhex", digits)),
        (call("regexp_like", again(arg), string(r"^([^\\]|\\\\)*$")), cast(plain, BINARY)),
        default=null(BINARY) if safe else error(wrong, BINARY),
    )


def _truth(arg: Tree, safe: bool) -> Tree:
    word = call("lower", call("trim", arg))
    known = [
        (exp.In(this=again(word), expressions=[string(one) for one in words]), value)
        for words, value in ((_TRUE, exp.true()), (_FALSE, exp.false()))
    ]
    missing = (is_null(again(word)), null("BOOLEAN"))
    return case(*known, missing, default=null("BOOLEAN") if safe else error("a text is not a BOOLEAN", "BOOLEAN"))
