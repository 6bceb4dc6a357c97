"""Functions of texts. Characters are counted from 1."""

from __future__ import annotations

from collections.abc import Callable

from ...model.types import BINARY, BOOLEAN, INT, STRING, Kind
from ..arithmetic import operate
from ..coercion import cast
from ..expressions import Call, Expr, Literal
from .arguments import of_text_and_integers, of_texts, text, whole
from .function import Args, Function, call


def _concat(function: Function, args: Args) -> Expr:
    """`concat` accepts any type and skips NULLs, unlike `||`."""
    texts = [cast(arg, STRING) for arg in args]
    solid = [Call(STRING, False, "coalesce", (t, Literal(STRING, False, ""))) if t.nullable else t for t in texts]
    return solid[0] if len(solid) == 1 else Call(STRING, False, "concat", tuple(solid))


def _with_separator(function: Function, args: Args) -> Expr:
    """`concat_ws`: NULL only if the separator is."""
    separator = text(function, args[0])
    values = tuple(cast(arg, STRING) for arg in args[1:])
    return Call(STRING, separator.nullable, "concat_ws", (separator, *values))


def _substring(function: Function, args: Args) -> Expr:
    """`substring` by position; with a text in place of the position, the match of a regular expression."""
    if len(args) == 2 and args[1].type.kind is Kind.STRING:
        found = call(STRING, "regexp_capture", text(function, args[0]), args[1])
        return Call(STRING, True, found.function, found.args)
    return of_text_and_integers()(function, args)


def _padded(function: Function, args: Args) -> Expr:
    fill = (text(function, args[2], 2),) if len(args) > 2 else ()
    return call(STRING, function.name, text(function, args[0]), whole(function, args[1], 1), *fill)


def _overlay(function: Function, args: Args) -> Expr:
    numbers = (whole(function, arg, position) for position, arg in enumerate(args[2:], 2))
    return call(STRING, "overlay", text(function, args[0]), text(function, args[1], 1), *numbers)


def _split_part(function: Function, args: Args) -> Expr:
    return call(
        STRING, "split_part", *(text(function, a, i) for i, a in enumerate(args[:2])), whole(function, args[2], 2)
    )


def _bit_length(function: Function, args: Args) -> Expr:
    return operate("mul", call(INT, "octet_length", _text_or_bytes(function, args[0])), Literal(INT, False, 8))


def _text_or_bytes(function: Function, arg: Expr) -> Expr:
    return arg if arg.type.kind is Kind.BINARY else text(function, arg)


def _octet_length(function: Function, args: Args) -> Expr:
    return call(INT, "octet_length", _text_or_bytes(function, args[0]))


def _character(function: Function, args: Args) -> Expr:
    return call(STRING, "chr", whole(function, args[0]))


def _to_hex(function: Function, args: Args) -> Expr:
    narrow = args[0].type.is_integer and args[0].type.kind is not Kind.BIGINT
    return call(STRING, "to_hex_int" if narrow else "to_hex", whole(function, args[0]))


def _digest(function: Function, args: Args) -> Expr:
    return call(STRING if function.name == "md5" else BINARY, function.name, _text_or_bytes(function, args[0]))


def _encode(function: Function, args: Args) -> Expr:
    return call(STRING, "encode", _text_or_bytes(function, args[0]), text(function, args[1], 1))


def _quoted(function: Function, args: Args) -> Expr:
    if function.name == "quote_nullable":
        return Call(STRING, False, "quote_nullable", (cast(args[0], STRING),))
    return call(STRING, function.name, cast(args[0], STRING))


def _format(function: Function, args: Args) -> Expr:
    form = text(function, args[0])
    return Call(STRING, form.nullable, "format", (form, *(cast(arg, STRING) for arg in args[1:])))


def _type_name(function: Function, args: Args) -> Expr:
    return Literal(STRING, False, str(args[0].type))


def _uuid(function: Function, args: Args) -> Expr:
    return Call(STRING, False, "gen_random_uuid", ())


# ---- regular expressions ---------------------------------------------------------------------------------------------


def _regexp(function: Function, args: Args) -> Expr:
    """Converts arguments by the signature's names: `start`, `n`, `end`, `group` are numbers, all else texts."""
    numbers = {"regexp_count": (2,), "regexp_instr": (2, 3, 4, 6), "regexp_substr": (2, 3, 5)}.get(function.name, ())
    found = [(whole if position in numbers else text)(function, arg, position) for position, arg in enumerate(args)]
    types = {"regexp_like": BOOLEAN, "regexp_count": INT, "regexp_instr": INT}
    bound = call(types.get(function.name, STRING), function.name, *found)
    return Call(bound.type, True, bound.function, bound.args) if function.name == "regexp_substr" else bound


_PATTERNS = {
    **dict.fromkeys(("regexp_match", "regexp_imatch", "regexp_capture", "similar"), (1, 2)),
    "regexp_like": (1, 2),
    "regexp_replace": (1, 3),
    "regexp_count": (1, 3),
    "regexp_instr": (1, 5),
    "regexp_substr": (1, 4),
}
"""Positions of the pattern among the arguments of a bound call, and of its flags or escape character."""


def pattern_checks(call: Expr) -> list[tuple[int, Callable[[], object]]]:
    """Checks of the constant patterns of a bound call.

    Each is the position of an argument, and a function that raises `InvalidText` or `NotSupportedError` if it is
    invalid.
    """
    if not isinstance(call, Call) or call.function not in _PATTERNS:
        return []
    pattern, further = (_constant(call.args, place) for place in _PATTERNS[call.function])
    if pattern is None or further is None:
        return []
    from .regular_expressions import check_flags, parse, similar_pattern

    if call.function == "similar":
        escape = further if len(call.args) > 2 else "\\"
        return [(1, lambda: parse(similar_pattern(pattern, escape)))]
    whole = (1, lambda: parse(pattern, further))
    return [(_PATTERNS[call.function][1], lambda: check_flags(further)), whole] if further else [whole]


def _constant(args: Args, place: int) -> str | None:
    """A constant text, "" for a missing argument, None for one that is not constant."""
    if place >= len(args):
        return ""
    arg = args[place]
    return arg.value if isinstance(arg, Literal) and isinstance(arg.value, str) else None


def _functions() -> list[Function]:
    texts = of_texts
    numbers = of_text_and_integers
    return [
        Function(
            "upper", "upper(text)", 1, 1, texts(STRING), null_with_arguments=True,
            description="The text in upper case", example="upper('Zürich')", result="ZÜRICH",
        ),
        Function(
            "lower", "lower(text)", 1, 1, texts(STRING), null_with_arguments=True,
            description="The text in lower case", example="lower('NYALA')", result="nyala",
        ),
        Function(
            "length", "length(text)", 1, 1, texts(INT), aliases=("char_length", "character_length"),
            null_with_arguments=True,
            description="The number of characters", example="length('größer')", result="6",
        ),
        Function(
            "octet_length", "octet_length(text)", 1, 1, _octet_length,
            description="The number of bytes in UTF-8", example="octet_length('größer')", result="8",
        ),
        Function(
            "reverse", "reverse(text)", 1, 1, texts(STRING),
            description="The characters in reverse order", example="reverse('abc')", result="cba",
        ),
        Function(
            "trim", "trim(text [, characters])", 1, 2, texts(STRING), null_with_arguments=True, aliases=("btrim",),
            description="The text without blanks, or any of the characters, at both ends; also "
            "trim(LEADING | TRAILING | BOTH characters FROM text)",
            example="trim('xyabcyx', 'xy')", result="abc",
        ),
        Function(
            "ltrim", "ltrim(text [, characters])", 1, 2, texts(STRING), null_with_arguments=True,
            description="The text without blanks, or any of the characters, at its start",
            example="ltrim('  abc')", result="abc",
        ),
        Function(
            "rtrim", "rtrim(text [, characters])", 1, 2, texts(STRING), null_with_arguments=True,
            description="The text without blanks, or any of the characters, at its end",
            example="rtrim('abcxx', 'x')", result="abc",
        ),
        Function(
            "replace", "replace(text, from, to)", 3, 3, texts(STRING),
            description="The text with every occurrence of a part replaced",
            example="replace('abcabc', 'b', '-')", result="a-ca-c",
        ),
        Function(
            "strpos", "strpos(text, part)", 2, 2, texts(INT),
            description="The first position of a part, 0 if there is none; also position(part IN text)",
            example="strpos('high', 'ig')", result="2",
        ),
        Function(
            "starts_with", "starts_with(text, prefix)", 2, 2, texts(BOOLEAN),
            description="True if the text begins with the prefix",
            example="starts_with('alphabet', 'alph')", result="true",
        ),
        Function(
            "substring", "substring(text, start [, length])", 2, 3, _substring, aliases=("substr",),
            fallible=True, fails_at_limits_only=True, null_with_arguments=True,
            calls=("substring", "regexp_capture"),
            description="The characters from a position on, at most length; also substring(text FROM start FOR "
            "length), and substring(text FROM pattern) for the match of a regular expression",
            example="substring('Thomas', 2, 3)", result="hom",
        ),
        Function(
            "left", "left(text, n)", 2, 2, numbers(), null_with_arguments=True,
            description="The first n characters; with a negative n, all but the last -n",
            example="left('abcde', -2)", result="abc",
        ),
        Function(
            "right", "right(text, n)", 2, 2, numbers(), null_with_arguments=True,
            description="The last n characters; with a negative n, all but the first -n",
            example="right('abcde', 2)", result="de",
        ),
        Function(
            "repeat", "repeat(text, times)", 2, 2, numbers(), fallible=True,
            description="The text repeated n times", example="repeat('Pg', 4)", result="PgPgPgPg",
        ),
        Function(
            "concat", "concat(value, ...)", 1, None, _concat, calls=("concat", "coalesce"),
            description="The values joined into one text; NULLs are skipped, unlike with ||",
            example="concat('abc', 2, NULL, 22)", result="abc222",
        ),
        Function(
            "concat_ws", "concat_ws(separator, value, ...)", 2, None, _with_separator, skips_nulls=True,
            description="The values joined into one text, with a separator between them; NULLs are skipped",
            example="concat_ws(',', 'abcde', 2, NULL, 22)", result="abcde,2,22",
        ),
        Function(
            "initcap", "initcap(text)", 1, 1, texts(STRING),
            description="The text with the first letter of each word in upper case, all others in lower case",
            example="initcap('hi THOMAS')", result="Hi Thomas",
        ),
        Function(
            "lpad", "lpad(text, length [, fill])", 2, 3, _padded, fallible=True,
            description="The text padded on the left to a length, with blanks or the fill text; a longer text "
                "is truncated",
            example="lpad('hi', 5, 'xy')", result="xyxhi",
        ),
        Function(
            "rpad", "rpad(text, length [, fill])", 2, 3, _padded, fallible=True,
            description="The text padded on the right to a length, with blanks or the fill text; a longer text "
                "is truncated",
            example="rpad('hi', 5, 'xy')", result="hixyx",
        ),
        Function(
            "overlay", "overlay(text, new, start [, length])", 3, 4, _overlay, fallible=True,
            description="The text with the characters from a position on replaced; also overlay(text PLACING "
                "new FROM start FOR length)",
            example="overlay('Txxxxas', 'hom', 2, 4)", result="Thomas",
        ),
        Function(
            "split_part", "split_part(text, separator, n)", 3, 3, _split_part, fallible=True,
            description="The nth part between separators, counted from the end if n is negative",
            example="split_part('abc~@~def~@~ghi', '~@~', 2)", result="def",
        ),
        Function(
            "translate", "translate(text, from, to)", 3, 3, texts(STRING),
            description="The text with each character of from replaced by the one at the same position of to, "
                "or removed if there is none",
            example="translate('12345', '143', 'ax')", result="a2x5",
        ),
        Function(
            "ascii", "ascii(text)", 1, 1, texts(INT),
            description="The code point of the first character", example="ascii('x')", result="120",
        ),
        Function(
            "chr", "chr(code)", 1, 1, _character, fallible=True,
            description="The character of a code point", example="chr(65)", result="A",
        ),
        Function(
            "bit_length", "bit_length(text)", 1, 1, _bit_length, calls=("octet_length", "mul"),
            description="The number of bits in UTF-8", example="bit_length('jose')", result="32",
        ),
        Function(
            "ends_with", "ends_with(text, suffix)", 2, 2, texts(BOOLEAN),
            description="True if the text ends with the suffix", example="ends_with('alphabet', 'bet')", result="true",
        ),
        Function(
            "contains", "contains(text, part)", 2, 2, texts(BOOLEAN),
            description="True if the text contains the part", example="contains('alphabet', 'hab')", result="true",
        ),
        Function(
            "levenshtein", "levenshtein(text, text)", 2, 2, texts(INT),
            description="The Levenshtein distance: the least number of characters to insert, delete or replace "
                "to turn one text into the other",
            example="levenshtein('GUMBO', 'GAMBOL')", result="2",
        ),
        Function(
            "to_hex", "to_hex(integer)", 1, 1, _to_hex, calls=("to_hex", "to_hex_int"), aliases=("hex",),
            description="The number in hexadecimal digits", example="to_hex(2147483647)", result="7fffffff",
        ),
        Function(
            "md5", "md5(text or binary)", 1, 1, _digest,
            description="The MD5 digest in hexadecimal digits",
            example="md5('abc')", result="900150983cd24fb0d6963f7d28e17f72",
        ),
        *(
            Function(
                name, f"{name}(text or binary)", 1, 1, _digest,
                description=f"The SHA-{name[3:]} digest, as BINARY", example=f"left(encode({name}('abc'), 'hex'), 8)",
                result=result,
            )
            for name, result in (
                ("sha224", "23097d22"), ("sha256", "ba7816bf"), ("sha384", "cb00753f"), ("sha512", "ddaf35a1"),
            )
        ),
        Function(
            "encode", "encode(binary or text, 'format')", 2, 2, _encode, fallible=True,
            description="Bytes as text: hex, base64 or escape", example="encode('123', 'base64')", result="MTIz",
        ),
        Function(
            "decode", "decode(text, 'format')", 2, 2, texts(BINARY), fallible=True,
            description="The bytes that a text in the format stands for, the inverse of encode",
            example="decode('MTIz', 'base64')",
            result="\\x313233",
        ),
        Function(
            "quote_literal", "quote_literal(value)", 1, 1, _quoted,
            description="The value as an SQL literal", example="quote_literal('O''Reilly')", result="'O''Reilly'",
        ),
        Function(
            "quote_nullable", "quote_nullable(value)", 1, 1, _quoted, skips_nulls=True,
            description="The value as an SQL literal; for NULL, the text NULL", example="quote_nullable(NULL)",
            result="NULL",
        ),
        Function(
            "quote_ident", "quote_ident(text)", 1, 1, _quoted,
            description="The text as an SQL identifier, quoted if necessary", example="quote_ident('Foo bar')",
            result='"Foo bar"',
        ),
        Function(
            "format", "format(template, value, ...)", 1, None, _format, fallible=True, skips_nulls=True,
            description="The template with values inserted: %s as text, %I as an identifier, %L as a literal, %2$s the "
                "second value",
            example="format('Hello %s, %1$s', 'World')", result="Hello World, World",
        ),
        Function(
            "regexp_like", "regexp_like(text, pattern [, flags])", 2, 3, _regexp, fallible=True,
            description="True if a regular expression matches anywhere in the text; also text ~ pattern, and ~* "
                "to ignore case",
            example="regexp_like('Hello World', 'world$', 'i')", result="true",
        ),
        Function(
            "regexp_replace", "regexp_replace(text, pattern, new [, flags])", 3, 4, _regexp, fallible=True,
            description="The text with the first match replaced, with flag g all matches; \\1 to \\9 in the new "
                "text stand for groups",
            example="regexp_replace('Thomas', '.[mN]a.', 'M')", result="ThM",
        ),
        Function(
            "regexp_substr", "regexp_substr(text, pattern [, start [, n [, flags [, group]]]])", 2, 6, _regexp,
            fallible=True,
            description="The nth match of a regular expression, or a group of it; NULL if there is none",
            example="regexp_substr('ABCDEF', 'c(.)(..)', 1, 1, 'i', 2)", result="EF",
        ),
        Function(
            "regexp_count", "regexp_count(text, pattern [, start [, flags]])", 2, 4, _regexp, fallible=True,
            description="The number of matches of a regular expression",
            example="regexp_count('123456789012', '\\d\\d\\d', 2)", result="3",
        ),
        Function(
            "regexp_instr", "regexp_instr(text, pattern [, start [, n [, end [, flags [, group]]]]])", 2, 7, _regexp,
            fallible=True,
            description="The position where the nth match begins (with end 1: the position after it), 0 if "
                "there is none",
            example="regexp_instr('ABCDEF', 'c(.)(..)', 1, 1, 0, 'i')", result="3",
        ),
        Function(
            "typeof", "typeof(value)", 1, 1, _type_name, calls=(), aliases=("pg_typeof",),
            category="other", description="The name of the value's type", example="typeof(1.5)", result="DECIMAL(2,1)",
        ),
        Function(
            "gen_random_uuid", "gen_random_uuid()", 0, 0, _uuid, volatile=True, aliases=("uuid",), category="other",
            description="A random UUID of version 4, a different one in each row",
            example="length(gen_random_uuid())", result="36",
        ),
    ]  # fmt: skip


TEXT = tuple(_functions())
