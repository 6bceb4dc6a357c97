"""Binds what queries on the system catalogs are written with: numbers of objects by name, arrays, qualified operators.

'orders'::regclass          the number of a table        c.oid::regclass::text      the name of one
a.attnum = ANY (conkey)     an array of the catalogs     indkey[0], ARRAY['r', 'v'], ARRAY (SELECT ...)
x OPERATOR(pg_catalog.~) y  x ~ y                        x COLLATE "default"        x
(i.keys).n                  a field of a record          t AT TIME ZONE 'UTC'       t
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from ....errors import NotSupportedError, TypeMismatch
from ....model.types import BIGINT, BOOLEAN, INT, STRING, DataType, Kind
from ... import functions
from ...arithmetic import operate
from ...array_text import parse_array
from ...coercion import cast, convert, fit, is_text_literal, unify
from ...deferred_parameters import DeferredParameter
from ...expressions import Call, Case, Expr, Literal
from ...functions import arrays
from ...syntax import nodes, not_supported
from ..context import Frame, Handler, name_of, only, unsupported
from .comparisons import compare, connect, negation

REFERENCES: Final = frozenset(
    ("regclass", "regtype", "regproc", "regprocedure", "regoper", "regoperator", "regnamespace", "regrole",
     "regcollation")
)  # fmt: skip
"""Types whose values are numbers of objects that are shown by their names."""
_COLLATIONS: Final = ("default", "c", "posix", "ucs_basic", "c.utf-8", "und-x-icu")
_UTC: Final = ("UTC", "Z", "GMT", "ETC/UTC", "UCT", "ZULU")
_BINARY: Final = {
    "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE, "+": exp.Add,
    "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "||": exp.DPipe, "~": exp.RegexpLike, "~*": exp.RegexpILike,
    "~~": exp.Like, "~~*": exp.ILike,
}  # fmt: skip
_NEGATED: Final = {"!~": exp.RegexpLike, "!~*": exp.RegexpILike, "!~~": exp.Like, "!~~*": exp.ILike}


# ---- casts -----------------------------------------------------------------------------------------------------------


def cast_to(value: Expr, target: DataType, frame: Frame) -> Expr | None:
    """A cast from or to a type of the catalogs; None for any other."""
    source, alias = value.type.alias, target.alias
    if alias in REFERENCES:
        return _reference(value, target, frame)
    if source in REFERENCES:
        from ..system.lookups import retyped, shown
        from ..system.relations import objects_of

        if target.kind is Kind.STRING:
            return shown(value, objects_of(frame.context))
        return cast(retyped(value, BIGINT), target)
    from ..system.lookups import retyped

    if alias is None and source is None:
        return None
    if isinstance(value, Literal) and value.value is not None and arrays.is_array(target):
        parse_array(str(value.value))  # raises where it is none
    return retyped(cast(value, target), target)


def _reference(value: Expr, target: DataType, frame: Frame) -> Expr:
    """The number of an object, by a constant name; a number stays."""
    from ..system.lookups import number_of, retyped, unknown
    from ..system.relations import objects_of

    kind = target.alias or ""
    if value.type.kind is Kind.NULL:
        return Literal(target, True, None)
    if value.type.kind is not Kind.STRING:
        return retyped(cast(value, BIGINT), target)
    if not isinstance(value, Literal):
        return _reference_by_row(value, target, frame)
    if value.value is None:
        return Literal(target, True, None)
    number = number_of(kind, value.value, objects_of(frame.context))
    if number is None:
        raise unknown(kind, value.value)
    return Literal(target, False, number)


def _reference_by_row(value: Expr, target: DataType, frame: Frame) -> Expr:
    """The numbers of tables by names that are computed: with the schema and without it, quoted where that is needed."""
    from ..system.lookups import names_to_numbers, retyped
    from ..system.relations import objects_of

    if target.alias not in ("regclass", "regnamespace"):
        raise NotSupportedError(f"a cast to {target.alias} needs a constant")
    return retyped(names_to_numbers(value, target.alias, objects_of(frame.context)), target)


def shown_reference(value: Expr, frame: Frame) -> Expr:
    """A column of the whole statement as clients see it: the name of an object in place of its number."""
    return cast_to(value, STRING, frame) or value if value.type.alias in REFERENCES else value


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _array(node: exp.Array, frame: Frame) -> Expr:
    only(node, "expressions", "bracket_notation")
    bound = frame.bind_all(node.expressions)
    if not bound:
        return arrays.array(())
    type_, found = unify(bound, "the elements of ARRAY are of types")
    return arrays.array(found if type_.kind is not Kind.NULL else tuple(convert(each, STRING) for each in found))


def _element(node: exp.Bracket, frame: Frame) -> Expr:
    only(node, "this", "expressions", "offset", "safe")
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise unsupported(node)
    array, place = frame.bind(node.this), frame.bind(node.expressions[0])
    if array.type.kind is not Kind.STRING or not place.type.is_integer:
        raise TypeMismatch(f"there is no element [{place.type}] of a value of type {array.type}")
    return arrays.element(array, place)


def quantified_array(node: Any) -> tuple[str, Any] | None:
    """`ANY` or `ALL` and the syntax of its array; None for anything else, a query included."""
    if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("ANY", "ALL", "SOME"):
        word = "ALL" if str(node.this).upper() == "ALL" else "ANY"
        if len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Query):
            return word, node.expressions[0]
    if isinstance(node, exp.Any | exp.All) and not isinstance(node.this.unnest(), exp.Query):
        return ("ALL" if isinstance(node, exp.All) else "ANY"), node.this
    return None


def compare_with_array(comparison: str, left: Expr, array: Expr, word: str, frame: Frame) -> Expr:
    """`left = ANY (array)` and its like."""
    if array.type.kind is Kind.NULL:
        array = Literal(STRING, True, None)
    if array.type.kind is not Kind.STRING:
        raise TypeMismatch(f"{word} needs an array such as '{{a,b}}' or a query, not a value of type {array.type}")
    if isinstance(array, DeferredParameter):
        # Its elements become comparisons, from which scans get their keys: other values are bound again.
        frame.context.momentary.append("ANY (?)")
        array = array.sample
    if isinstance(array, Literal):
        if array.value is None:
            return Literal(BOOLEAN, True, None)
        typed = arrays.element_type(array.type) if arrays.is_array(array.type) else left.type
        tests = tuple(compare(comparison, left, _constant(each, typed, left)) for each in parse_array(array.value))
        if not tests:
            return Literal(BOOLEAN, False, word == "ALL")
        return tests[0] if len(tests) == 1 else connect("and" if word == "ALL" else "or", tests)
    if (comparison, word) not in (("eq", "ANY"), ("ne", "ALL")):
        raise NotSupportedError(f"only = ANY and <> ALL compare with an array that is not constant; {word} is not")
    value = cast(left, STRING) if left.type.kind is not Kind.STRING else left
    found = Call(BOOLEAN, True, "array_contains", (array, value))
    return found if word == "ANY" else negation(found)


def _constant(text: str | None, type_: DataType, left: Expr) -> Expr:
    literal = Literal(STRING, text is None, text)
    target = left.type if is_text_literal(left) or left.type.kind is not Kind.STRING else type_
    return fit(literal, target if target.kind is not Kind.NULL else STRING) or literal


# ---- other syntax ----------------------------------------------------------------------------------------------------


def _operator(node: exp.Operator, frame: Frame) -> Expr:
    symbol = str(node.args["operator"]).removeprefix("pg_catalog.")
    negated = symbol in _NEGATED
    kind = _NEGATED.get(symbol) or _BINARY.get(symbol)
    if kind is None:
        raise NotSupportedError(f"OPERATOR({symbol}) is not supported")
    found = kind(this=node.this, expression=node.expression)
    found.parent = node.parent
    return frame.bind(exp.Not(this=found) if negated else found)


def _collate(node: exp.Collate, frame: Frame) -> Expr:
    written = node.expression
    name = name_of(written.this if isinstance(written, exp.Column) else written)
    if name.lower() not in _COLLATIONS:
        raise NotSupportedError(f"COLLATE {name} is not supported; {not_supported.CONSTRAINTS['COLLATE']}")
    return frame.bind(node.this)


def _at_time_zone(node: exp.AtTimeZone, frame: Frame) -> Expr:
    zone = frame.bind(node.args["zone"])
    if not isinstance(zone, Literal) or str(zone.value).upper() not in _UTC:
        raise NotSupportedError(f"AT TIME ZONE is not supported, except for 'UTC'; {not_supported.ZONES}")
    return frame.bind(node.this)


def _field(node: exp.Dot, frame: Frame) -> Expr:
    name = node.expression
    if not isinstance(node.this, exp.Paren) or not isinstance(name, exp.Identifier):
        raise unsupported(node)
    record = frame.bind(node.this)
    places = {"x": 1, "n": 2}
    if record.type.alias != EXPANDED or name_of(name) not in places:
        raise TypeMismatch(f"a value of type {record.type} has no field {name.name}")
    place = places[name_of(name)]
    found = Call(STRING, True, "record_field", (record, Literal(BIGINT, False, place)))
    return cast(found, INT)


EXPANDED: Final = "record(x,n)"
"""The alias of the records that `_pg_expandarray` returns: an element and its place."""


def _row(node: nodes.ArrayRow, frame: Frame) -> Expr:
    """The value that a function of rows has in a row."""
    array, place = frame.bind(node.this), frame.bind(node.expression)
    if array.type.kind is not Kind.STRING:
        raise TypeMismatch(f"{node.args['kind']} needs an array such as '{{a,b}}', not a value of type {array.type}")
    # The vectors of the catalogs are counted from 0.
    from_zero = operate("sub", place, Literal(INT, False, 1)) if (array.type.alias or "").endswith("vector") else place
    if node.args["kind"] == "generate_subscripts":
        within = compare("le", place, functions.build("cardinality", (array,)))
        return Case(INT, True, ((within, cast(from_zero, INT)),), Literal(INT, True, None))
    value = arrays.element(array, from_zero)
    return value if node.args["kind"] == "unnest" else _expanded(value, place)


def _expanded(element: Expr, place: Expr) -> Expr:
    """The record of an element and its place, as a text such as `(3,1)`."""
    texts = (Literal(STRING, False, "("), cast(element, STRING), Literal(STRING, False, ","))
    last = (cast(place, STRING), Literal(STRING, False, ")"))
    return Call(DataType(Kind.STRING, alias=EXPANDED), True, "concat", (*texts, *last))


def concatenated_arrays(left: Expr, right: Expr) -> Expr | None:
    """`left || right` of two arrays; None for texts."""
    if not (arrays.is_array(left.type) or arrays.is_array(right.type)):
        return None
    type_ = left.type if arrays.is_array(left.type) else right.type
    sides = tuple(convert(side, STRING) if side.type.kind is Kind.NULL else side for side in (left, right))
    whole = tuple(
        side
        if arrays.is_array(side.type) or (is_text_literal(side) and str(side.value).startswith("{"))  # type: ignore[attr-defined]
        else arrays.array((side,))
        for side in sides
    )
    return Call(type_, True, "array_cat", whole)


HANDLERS: dict[type, Handler] = {
    exp.Array: _array,
    exp.AtTimeZone: _at_time_zone,
    exp.Bracket: _element,
    exp.Collate: _collate,
    exp.Dot: _field,
    exp.Operator: _operator,
    nodes.ArrayRow: _row,
}
