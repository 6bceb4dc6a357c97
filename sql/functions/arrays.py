"""Functions of arrays, which are texts such as `{1,2}`: the system catalogs have them, tables have not.

The alias of an array's type names the type of its elements (`DataType.alias`): `int2[]`, `oidvector`.
"""

from __future__ import annotations

from typing import Final

from ...errors import TypeMismatch
from ...model.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, SMALLINT, STRING, DataType, Kind
from ..array_text import write_array
from ..coercion import cast
from ..expressions import Call, Expr, Literal
from .arguments import text, whole
from .function import Args, Builder, Function

_ELEMENTS: Final = {
    "bool": BOOLEAN,
    "float4": FLOAT,
    "float8": DOUBLE,
    "int2": SMALLINT,
    "int4": INT,
    "int8": BIGINT,
    **{name: DataType(Kind.BIGINT, alias=name) for name in ("oid", "regtype", "regclass")},
}
_BY_KIND: Final = {
    Kind.BOOLEAN: "bool",
    Kind.SMALLINT: "int2",
    Kind.TINYINT: "int2",
    Kind.INT: "int4",
    Kind.BIGINT: "int8",
    Kind.FLOAT: "float4",
    Kind.DOUBLE: "float8",
}


def is_array(type_: DataType) -> bool:
    """True for the type of an array."""
    return type_.alias is not None and (type_.alias.endswith("[]") or type_.alias in ("int2vector", "oidvector"))


def array_of(element: DataType) -> DataType:
    """The type of arrays of a type.

    >>> array_of(INT).alias, array_of(STRING).alias
    ('int4[]', 'text[]')
    """
    name = element.alias or _BY_KIND.get(element.kind, "text")
    return DataType(Kind.STRING, alias=f"{name}[]")


def element_type(array: DataType) -> DataType:
    """The type of an array's elements."""
    name = (array.alias or "text").removesuffix("[]").removesuffix("vector")
    return _ELEMENTS.get(name, STRING)


def element(array: Expr, place: Expr) -> Expr:
    """`array[place]`."""
    found = Call(STRING, True, "array_element", (array, cast(place, BIGINT)))
    return cast(found, element_type(array.type))


def array(elements: Args) -> Expr:
    """`ARRAY[elements]`, of a common type."""
    type_ = array_of(elements[0].type if elements else STRING)
    texts = tuple(cast(each, STRING) for each in elements)
    if all(isinstance(each, Literal) for each in texts):
        return Literal(type_, False, write_array(each.value for each in texts))  # type: ignore[attr-defined]
    return Call(type_, False, "array_join", texts)


def _texts(result: DataType, count: int) -> Builder:
    def build(function: Function, args: Args) -> Expr:
        found = [text(function, arg, place) for place, arg in enumerate(args[:count])]
        rest = [whole(function, arg, place) for place, arg in enumerate(args[count:], count)]
        return Call(result, True, function.name, (*found, *rest))

    return build


def _length(function: Function, args: Args) -> Expr:
    dimension = args[1] if len(args) > 1 else Literal(INT, False, 1)
    return Call(INT, True, function.name, (text(function, args[0]), whole(function, dimension, 1)))


def _cardinality(function: Function, args: Args) -> Expr:
    length = Call(INT, True, "array_length", (text(function, args[0]), Literal(BIGINT, False, 1)))
    return Call(INT, args[0].nullable, "coalesce", (length, Literal(INT, False, 0)))


def _position(function: Function, args: Args) -> Expr:
    return Call(INT, True, "array_position", (text(function, args[0]), cast(args[1], STRING)))


def _remove(function: Function, args: Args) -> Expr:
    array = text(function, args[0])
    return Call(array.type, array.nullable, "array_remove", (array, cast(args[1], STRING)))


def _object(function: Function, args: Args) -> Expr:
    if len(args) % 2:
        raise TypeMismatch(f"{function.name} takes names and values in turn: {function.signature}")
    return Call(STRING, False, function.name, args)


_ARRAY_OF_TEXTS: Final = DataType(Kind.STRING, alias="text[]")

ARRAYS = (
    Function(
        "array_to_string", "array_to_string(array, separator [, instead of NULL])", 2, 3, _texts(STRING, 3),
        skips_nulls=True, fallible=True,
        description="The elements of an array such as {a,b} as one text", example="array_to_string('{a,b}', '+')",
        result="a+b",
    ),
    Function(
        "string_to_array", "string_to_array(text, separator [, NULL])", 2, 3, _texts(_ARRAY_OF_TEXTS, 3),
        skips_nulls=True,
        description="The parts of a text as an array", example="string_to_array('a+b', '+')", result="{a,b}",
    ),
    Function(
        "array_length", "array_length(array, dimension)", 2, 2, _length, fallible=True,
        description="The number of elements; NULL for an empty array", example="array_length('{a,b}', 1)", result="2",
    ),
    Function(
        "array_lower", "array_lower(array, dimension)", 2, 2, _length, fallible=True,
        description="The subscript of the first element", example="array_lower('{a,b}', 1)", result="1",
    ),
    Function(
        "array_upper", "array_upper(array, dimension)", 2, 2, _length, fallible=True,
        description="The subscript of the last element", example="array_upper('{a,b}', 1)", result="2",
    ),
    Function(
        "cardinality", "cardinality(array)", 1, 1, _cardinality, calls=("array_length", "coalesce"),
        description="The number of elements, 0 for an empty array", example="cardinality('{}')", result="0",
    ),
    Function(
        "array_position", "array_position(array, element)", 2, 2, _position, skips_nulls=True, fallible=True,
        description="The subscript of the first such element", example="array_position('{a,b}', 'b')", result="2",
    ),
    Function(
        "array_remove", "array_remove(array, element)", 2, 2, _remove, skips_nulls=True, fallible=True,
        description="The array without an element", example="array_remove('{a,b}', 'b')", result="{a}",
    ),
    Function(
        "parse_ident", "parse_ident(name)", 1, 1, _texts(_ARRAY_OF_TEXTS, 1), fallible=True,
        description="The parts of a written name as an array", example="parse_ident('Main.\"T\"')", result="{main,T}",
    ),
    Function(
        "json_build_object", "json_build_object(name, value, ...)", 2, None, _object, skips_nulls=True,
        fallible=True,
        description="A JSON object as a text", example="json_build_object('a', 1)", result='{"a" : 1}',
    ),
)  # fmt: skip
