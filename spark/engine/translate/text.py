"""Translates functions of texts.

Positions and lengths are BIGINTs in nyala and INTs in Spark; constants are written as they are. Spark counts positions
and lengths below 1 from the end; for these the position is computed explicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from ....model.types import BINARY, Kind
from ....sql.expressions import Call, Expr, Literal
from .tree import (
    Tree,
    again,
    both,
    call,
    cast,
    either,
    error,
    infix,
    less,
    minus,
    negated,
    not_supported,
    null,
    number,
    plus,
    string,
)

Writer = Callable[[Call, list[Tree]], Tree]

_MOST: Final = 2**31 - 1


def plain(name: str) -> Writer:
    """A function that has the same name and arguments in Spark."""
    return lambda expr, args: call(name, *args)


def integer(expr: Expr, tree: Tree) -> Tree:
    """A BIGINT as Spark's INT, limited to its range, which no text's length exceeds."""
    if isinstance(expr, Literal) and expr.value is not None:
        return number(max(-_MOST, min(_MOST, int(expr.value))))
    return cast(limited(tree, -_MOST, _MOST), "INT")


def limited(tree: Tree, low: int, high: int) -> Tree:
    """The number limited to a range; NULL for NULL."""
    inner = call("if", infix(exp.GT, again(tree), number(high)), number(high), again(tree))
    return call("if", less(tree, number(low)), number(low), inner)


def _integers_behind(name: str, first: int = 1) -> Writer:
    """The same function, whose integer arguments from `first` on are cast to INT."""

    def write(expr: Call, args: list[Tree]) -> Tree:
        parts = [
            integer(arg, tree) if place >= first and arg.type.is_integer else tree
            for place, (arg, tree) in enumerate(zip(expr.args, args))
        ]
        return call(name, *parts)

    return write


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _substring(expr: Call, args: list[Tree]) -> Tree:
    start = expr.args[1]
    length = expr.args[2] if len(expr.args) > 2 else None
    if isinstance(start, Literal) and start.value is not None and (length is None or isinstance(length, Literal)):
        return _constant_substring(args[0], int(start.value), length, expr)
    begin = integer(start, args[1])
    first = call("if", less(again(begin), number(1)), number(1), again(begin))
    if length is None:
        return call("substring", args[0], first)
    size = integer(length, args[2])
    # Characters before the start of the text are counted, but do not exist.
    rest = call("if", less(again(begin), number(1)), minus(plus(cast(again(size), "BIGINT"), begin), number(1)),
                cast(again(size), "BIGINT"))  # fmt: skip
    taken = call("substring", args[0], first, cast(limited(rest, 0, _MOST), "INT"))
    refused = error("a negative length of a substring is not possible", "STRING")
    return call("if", less(size, number(0)), refused, taken)


def _constant_substring(value: Tree, start: int, length: Literal | None, expr: Call) -> Tree:
    if length is None:
        return call("substring", value, number(max(1, min(start, _MOST))))
    if length.value is None:
        return null(expr.type)
    if length.value < 0:
        return call("if", exp.Is(this=value, expression=exp.null()), null(expr.type),
                    error("a negative length of a substring is not possible", "STRING"))  # fmt: skip
    begin, end = max(0, start - 1), max(0, start - 1 + int(length.value))
    return call("substring", value, number(min(begin + 1, _MOST)), number(max(0, min(end - begin, _MOST))))


def _left(expr: Call, args: list[Tree]) -> Tree:
    count = integer(expr.args[1], args[1])
    length = plus(call("char_length", again(args[0])), again(count))
    return call("substring", args[0], number(1), call("if", less(count, number(0)), limited(length, 0, _MOST),
                again(count)))  # fmt: skip


def _right(expr: Call, args: list[Tree]) -> Tree:
    count = integer(expr.args[1], args[1])
    from_here = call("substring", again(args[0]), minus(number(1), again(count)))
    return call("if", less(again(count), number(0)), from_here, call("right", args[0], count))


def _overlay(expr: Call, args: list[Tree]) -> Tree:
    value, new = args[:2]
    start = integer(expr.args[2], args[2])
    count = integer(expr.args[3], args[3]) if len(args) > 3 else call("char_length", again(new))
    before = call("substring", again(value), number(1), minus(again(start), number(1)))
    behind = call("substring", value, limited(plus(again(start), count), 1, _MOST))
    refused = error("OVERLAY cannot start before position 1", "STRING")
    return call("if", less(start, number(1)), refused, call("concat", before, new, behind))


def _trim(position: str) -> Writer:
    def write(expr: Call, args: list[Tree]) -> Tree:
        characters = args[1] if len(args) > 1 else string(" ")
        return exp.Trim(this=args[0], expression=characters, position=position)

    return write


# ---- characters and bytes --------------------------------------------------------------------------------------------


def _chr(expr: Call, args: list[Tree]) -> Tree:
    """chr(), which Spark limits to 255."""
    code = args[0]
    wrong = either(
        less(again(code), number(1)),
        infix(exp.GT, again(code), number(0x10FFFF)),
        both(infix(exp.GTE, again(code), number(0xD800)), less(again(code), number(0xE000))),
    )
    digits = call("lpad", call("hex", code), number(8), string("0"))
    character = call("decode", call("unhex", digits), string("UTF-32"))
    return call("if", wrong, error("chr: there is no such character", "STRING"), character)


def _bytes(expr: Expr, tree: Tree) -> Tree:
    return tree if expr.type.kind is Kind.BINARY else cast(tree, BINARY)


def _md5(expr: Call, args: list[Tree]) -> Tree:
    return call("md5", _bytes(expr.args[0], args[0]))


def _sha(bits: int) -> Writer:
    return lambda expr, args: call("unhex", call("sha2", _bytes(expr.args[0], args[0]), number(bits)))


def _form(expr: Call) -> str:
    form = expr.args[1]
    if not isinstance(form, Literal) or form.value is None:
        raise not_supported(f"{expr.function}() with a format that is not constant")
    return str(form.value).lower()


def _encode(expr: Call, args: list[Tree]) -> Tree:
    data, form = _bytes(expr.args[0], args[0]), _form(expr)
    if form == "hex":
        return call("lower", call("hex", data))
    if form == "base64":
        whole = call("regexp_replace", call("base64", data), string(r"\s"), string(""))
        return call("regexp_replace", whole, string("(.{76})(?=.)"), string("$1\n"))
    raise not_supported(f"encode() to '{form}'")


def _decode(expr: Call, args: list[Tree]) -> Tree:
    form = _form(expr)
    value = call("regexp_replace", args[0], string(r"\s"), string(""))
    if form == "hex":
        known, decoded = "^([0-9A-Fa-f]{2})*$", call("unhex", again(value))
    elif form == "base64":
        known = "^([0-9A-Za-z+/]{4})*([0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?$"
        decoded = call("unbase64", again(value))
    else:
        raise not_supported(f"decode() of '{form}'")
    wrong = negated(call("regexp_like", value, string(known)))
    return call("if", wrong, error(f"a text is not {form}", "BINARY"), decoded)


def _quote_literal(expr: Call, args: list[Tree]) -> Tree:
    return call("concat", string("'"), call("replace", args[0], string("'"), string("''")), string("'"))


WRITERS: Mapping[str, Writer] = {
    "upper": plain("upper"),
    "lower": plain("lower"),
    "length": plain("char_length"),
    "octet_length": plain("octet_length"),
    "reverse": plain("reverse"),
    "trim": _trim("BOTH"),
    "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"),
    "replace": plain("replace"),
    "strpos": plain("instr"),
    "starts_with": plain("startswith"),
    "ends_with": plain("endswith"),
    "contains": plain("contains"),
    "substring": _substring,
    "left": _left,
    "right": _right,
    "repeat": _integers_behind("repeat"),
    "concat_ws": plain("concat_ws"),
    "lpad": _integers_behind("lpad"),
    "rpad": _integers_behind("rpad"),
    "overlay": _overlay,
    "split_part": _integers_behind("split_part"),
    "translate": plain("translate"),
    "ascii": plain("ascii"),
    "chr": _chr,
    "levenshtein": plain("levenshtein"),
    "to_hex": lambda expr, args: call("lower", call("hex", args[0])),
    "to_hex_int": lambda expr, args: call("lower", call("hex", infix(exp.BitwiseAnd, args[0],
                                          cast(number(0xFFFFFFFF), "BIGINT")))),
    "md5": _md5,
    "sha224": _sha(224),
    "sha256": _sha(256),
    "sha384": _sha(384),
    "sha512": _sha(512),
    "encode": _encode,
    "decode": _decode,
    "quote_literal": _quote_literal,
    "quote_nullable": lambda expr, args: call("coalesce", _quote_literal(expr, args), string("NULL")),
    "gen_random_uuid": lambda expr, args: call("uuid"),
}  # fmt: skip

REFUSED: Mapping[str, str] = {
    "initcap": "Spark's words end at blanks alone",
    "quote_ident": "the words that must be quoted are nyala's",
    "format": "Spark has no %I and %L",
    **dict.fromkeys(
        (
            *("array_cat", "array_contains", "array_element", "array_join", "array_length", "array_lower"),
            *("array_position", "array_quote", "array_remove", "array_to_string", "array_upper", "string_to_array"),
            *("catalog_text", "format_type", "json_build_object", "parse_ident", "pg_size_pretty", "record_field"),
        ),
        "it is for the system catalogs, which nyala reads itself",
    ),
}
