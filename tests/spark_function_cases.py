"""Calls of every scalar function over a table of edge values, by the canonical name they are bound into.

The table: k, i INT, n BIGINT, h SMALLINT, y TINYINT, d DECIMAL(9,2), w DECIMAL(38,10), f DOUBLE, g FLOAT, s, t texts,
b BOOLEAN, day DATE, ts TIMESTAMP, x BINARY. Where a call exists for some values alone, a CASE keeps the others out.
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = (
    "k INT PRIMARY KEY, i INT, n BIGINT, h SMALLINT, y TINYINT, d DECIMAL(9,2), w DECIMAL(38,10), f DOUBLE, g FLOAT, "
    "s VARCHAR, t VARCHAR, b BOOLEAN, day DATE, ts TIMESTAMP, x BINARY"
)

ROWS: Final = (
    "(0, 0, 0, 0, 0, 0, 0, 0, 0, '', '', true, DATE '2024-02-29', TIMESTAMP '2024-02-29 13:14:15.678901', X'')",
    "(1, 1, -1, 7, -7, 1.25, -1.2345678905, 1.5, -1.5, 'abc', 'b', false, DATE '1970-01-01', "
    "TIMESTAMP '1970-01-01 00:00:00', X'00ff10')",
    "(2, -5, 5000000000, -300, 100, -2.50, 12345678901234567890.5, -2.5, 0.1, 'größer Straße', 'ß', NULL, "
    "DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59.5', X'616263')",
    "(3, 7, -9000000000000000, 32767, 127, 9999999.99, 0.0000000001, 1e20, 1e10, '  pad  ', ' ', true, "
    "DATE '0001-01-01', TIMESTAMP '0001-01-01 00:00:01', X'7a')",
    "(4, 2147483647, 9223372036854775807, -32768, -128, -9999999.99, -0.5, 1e-7, 3.4e38, 'a,b,,c', ',', false, "
    "DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999', X'ff')",
    "(5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(6, 3, 12, 4, 2, 2.50, 2.5, 'NaN', 'Infinity', 'The QUICK brown\nfox', 'QUICK', true, DATE '2023-12-31', "
    "TIMESTAMP '2023-12-31 12:00:00', X'e282ac')",
    "(7, 10, 64, 3, 3, 0.05, 99.99, '-Infinity', '-Infinity', 'x%_y\\z', '%', false, DATE '2021-01-03', "
    "TIMESTAMP '2021-01-03 06:07:08.1', X'00')",
    "(8, -2147483648, -9223372036854775808, 1, 1, -0.05, -99.5, 0.5, 2.5, '12.50', '1', NULL, DATE '2020-06-15', "
    "TIMESTAMP '2020-06-15 23:59:59.999999', X'ffff')",
    "(9, 2, 2, 2, 2, 0.49, 1.5, 123456789.125, 16777216, '日本語テキスト', '語', true, DATE '2000-01-31', "
    "TIMESTAMP '2000-01-31 01:02:03', X'01')",
)

_PARTS = (
    "millennium",
    "century",
    "decade",
    "year",
    "isoyear",
    "quarter",
    "month",
    "week",
    "day",
    "doy",
    "dow",
    "isodow",
)
_CLOCK = ("hour", "minute", "second", "milliseconds", "microseconds", "epoch")
_UNITS = (
    "millennium", "century", "decade", "year", "quarter", "month", "week", "day", "hour", "minute", "second",
    "milliseconds", "microseconds",
)  # fmt: skip
_SMALL = "i BETWEEN -1000 AND 1000"
_LONG = "CAST(i AS DECIMAL(38,0)) * 0 + CASE WHEN b THEN 1 ELSE -1 END * 12345678901234567890123456789012345678"
_FLOATS = ("f", "CAST(g AS DOUBLE)")


def _small(text: str, condition: str = _SMALL) -> str:
    return f"CASE WHEN {condition} THEN {text} END"


def _finite(name: str, condition: str = "abs(f) < 1000") -> list[str]:
    return [f"CASE WHEN {condition} AND f = f THEN {name}(f) END", f"{name}(CASE WHEN {condition} THEN f END)"]


_COMPARED = [("i", "h"), ("n", "i"), ("d", "w"), ("f", "g"), ("f", "i"), ("s", "t"), ("b", "(k > 4)"), ("day", "ts"),
             ("ts", "day"), ("x", "X'61'"), ("f", "'NaN'")]  # fmt: skip

CASES: Final[dict[str, list[str]]] = {
    **{
        name: [f"{a} {sign} {b}" for a, b in _COMPARED]
        for name, sign in (("eq", "="), ("ne", "<>"), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
    },
    "saturated": [f"w {sign} CAST(CASE WHEN abs(d) < 1 THEN d END AS DECIMAL(38,38))" for sign in ("=", "<", ">")],
    "is_distinct": ["i IS DISTINCT FROM h", "s IS NOT DISTINCT FROM t", "f IS DISTINCT FROM 'NaN'",
        "i IS DISTINCT FROM 7"],
    "and": ["b AND i > 0", "b AND NULL", "i > 0 AND s < 'b' AND d < 1"],
    "or": ["b OR i > 0", "b OR NULL"],
    "not": ["NOT b", "NOT (b AND i > 0)"],
    "is_null": ["s IS NULL", "(h > 3) IS NOT NULL"],
    "is_true": ["b IS TRUE", "b IS NOT TRUE"],
    "is_false": ["b IS FALSE", "b IS NOT FALSE"],
    "like": [
        "s LIKE 'a%'", "s LIKE '%b%'", "s LIKE '_bc'", r"s LIKE 'x\%\_y%'", "s LIKE '%!%!_%' ESCAPE '!'", "s LIKE t",
        r"s LIKE '%\\z'", "s LIKE '%QUICK%fox'", "s LIKE ''", r"s LIKE 'x\%\_\y%'", "s NOT LIKE '%a%'",
        "s LIKE '%' || t || '%'", "s LIKE '日_語%'",
    ],
    "ilike": ["s ILIKE 'A%'", "s ILIKE '%quick%'", "s ILIKE 'GRÖSSER%'", "s ILIKE '%' || t"],
    "concat": ["s || t", "s || '-' || i", "concat(s, i, NULL, d, day)", "concat(b, f)"],
    "add": ["CASE WHEN i < 100 THEN i + 1 END", "h + 1", "d + w", "d + 1", "w + CAST(0.0000000001 AS DECIMAL(38,10))",
            "f + 1", "f + g", "CASE WHEN k IN (0, 1) THEN y + y END", _small("n + i"),
            "CASE WHEN k <> 4 THEN day + 3 END",
            "CASE WHEN k <> 4 THEN day + INTERVAL '1 month' END",
            "CASE WHEN k <> 4 THEN day + INTERVAL '1 day 02:03:04' END",
            "CASE WHEN k <> 4 THEN ts + INTERVAL '13 months 2 days 01:02:03.5' END",
            "CASE WHEN k <> 4 THEN ts + make_interval(0, h % 10, 0, i % 10, y % 10, 5, 0.25) END",
            "CAST(w AS DECIMAL(38,16)) + CAST(1 AS DECIMAL(38,16))"],
    "sub": ["CASE WHEN i > -100 THEN i - 1 END", "d - w", "f - g", "day - DATE '2000-01-01'",
            "CASE WHEN k <> 3 THEN day - 3 END", "CASE WHEN k <> 3 THEN day - INTERVAL '1 month' END",
            "CASE WHEN k <> 3 THEN ts - INTERVAL '1 year 1 month 1 day 1 hour' END"],
    "mul": [_small("i * h"), "d * d", "d * 3", "CASE WHEN k <> 2 THEN w * d END",
        "CASE WHEN abs(f) < 1e10 THEN f * f END", "f * 2", "g * 2.5",
            "d * d * d"],
    "div": ["CASE WHEN h <> 0 AND i IS NOT NULL AND NOT (i < -1000) THEN i / h END", "d / 3",
        "d / CAST(7 AS DECIMAL(38,4))",
            "CASE WHEN d <> 0 THEN 1 / d END", "CASE WHEN k <> 0 THEN w / 7 END", "d / 0.3", "f / 3", "d / 8.0",
            "CASE WHEN i <> 0 THEN f / i END", "n / 7", "h / 7",
            "CASE WHEN k <> 2 AND w <> 0 THEN d / w END", "CASE WHEN d <> 0 THEN w / d END", "i / 3.0",
            "CASE WHEN n <> 0 THEN CAST(d AS DECIMAL(30,4)) / n END"],
    "mod": ["i % 7", "n % 1000", "d % 0.3", "f % 3", "CASE WHEN h <> 0 THEN i % h END", "mod(w, 7)", "mod(-9, 4)"],
    "neg": [_small("-i"), "-d", "-f", "-w", "-(-1.5)", f"-({_LONG})"],
    "abs": [_small("abs(i)"), "abs(d)", "abs(f)", "abs(w)", "abs(g)", f"abs({_LONG})"],
    "sign": ["sign(i)", "sign(d)", "sign(f)", "sign(w)"],
    "floor": ["floor(d)", "floor(w)", "floor(f)", "floor(g)", "floor(i)", "floor(-0.5)"],
    "ceil": ["ceil(d)", "ceil(w)", "ceil(f)", "ceil(g)", "ceil(f / 3)"],
    "round": ["round(d)", "round(d, 1)", "round(w, 3)", "round(f)", "round(f, 2)",
        "CASE WHEN abs(f) < 1e10 THEN round(f, -2) END", _small("round(i, -1)"),
              "round(d, -3)", "round(g)", "round(f / 7, 4)"],
    "trunc": ["trunc(d)", "trunc(d, 1)", "trunc(w, 3)", "trunc(f)", "trunc(f, 1)", "trunc(d, -2)",
        _small("trunc(i, -1)")],
    "whole_quotient": ["div(d, 0.3)", "div(9.5, 4)", "CASE WHEN d <> 0 THEN div(w, d) END", "div(-d, 4)"],
    "sqrt": ["sqrt(abs(f))", "sqrt(abs(w))"],
    "cbrt": ["cbrt(f)", "cbrt(d)"],
    "exp": _finite("exp", "f < 100"),
    **{name: [f"CASE WHEN f > 0 THEN {name}(f) END", f"CASE WHEN d > 0 THEN {name}(d) END"] for name in ("ln", "log10",
        "log2")},
    "log": ["CASE WHEN f > 0 THEN log(2, f) END"],
    "power": ["power(d, 2)", _small("power(2, i)"), "CASE WHEN f > 0 THEN power(f, 0.5) END"],
    **{name: _finite(name) for name in ("sin", "cos", "tan", "sinh", "cosh")},
    "cot": ["CASE WHEN abs(f) < 1000 AND f <> 0 THEN cot(f) END"],
    **{name: [f"CASE WHEN abs(f) <= 1 THEN {name}(f) END"] for name in ("asin", "acos")},
    "atanh": ["CASE WHEN abs(f) < 1 THEN atanh(f) END"],
    **{name: _finite(name) for name in ("atan", "tanh", "asinh", "radians")},
    "acosh": ["CASE WHEN f >= 1 AND f < 1e100 THEN acosh(f) END"],
    "degrees": _finite("degrees"),
    "atan2": ["atan2(d, 2)", "atan2(f, g)"],
    **{name: [f"{name}(f)", f"{name}(g)", f"{name}(i)"] for name in ("isnan", "isinf", "isfinite")},
    "bitwise_and": ["i & 6", "n & 255", "y & 15"],
    "bitwise_or": ["i | 6", "h | 1"],
    "bitwise_xor": ["i # 6", "n # i"],
    "bitwise_not": ["~i", "~y"],
    "shift_left": ["i << 3", "n << 40", "h << 2", "y << 3", "y << i"],
    "shift_right": ["i >> 1", "n >> 40", "h >> 2", "y >> 1", "i >> h"],
    "factorial": ["CASE WHEN i BETWEEN 0 AND 33 THEN factorial(i) END", "factorial(33)"],
    "width_bucket": ["width_bucket(d, 0, 10, 5)", "width_bucket(d, 10, 0, 4)"],
    "coalesce": ["coalesce(s, t, 'none')", "coalesce(i, 0)", "ifnull(d, w)"],
    "greatest": ["greatest(i, h, NULL)", "greatest(s, t)", "greatest(f, g)", "greatest(d)",
        "greatest(day, DATE '2000-01-01')"],
    "least": ["least(i, h)", "least(s, t, 'b')", "least(f, g)", "least(NULL, d)"],
    # texts
    "upper": ["upper(replace(s, 'ß', 'ss'))"],
    "lower": ["lower(s)"],
    "length": ["length(s)", "length('日本')"],
    "octet_length": ["octet_length(s)", "octet_length(x)", "bit_length(s)"],
    "reverse": ["reverse(s)"],
    **{name: [f"{name}(s)", f"{name}(s, t)", f"{name}(s, 'ab ')", f"{name}(s, '')"] for name in ("trim", "ltrim",
        "rtrim")},
    "replace": ["replace(s, t, '-')", "replace(s, '', 'x')", "replace(s, 'b', '')"],
    "strpos": ["strpos(s, t)", "position('' IN s)", "strpos(s, 'ß')", "strpos(s, '語')"],
    "starts_with": ["starts_with(s, t)", "starts_with(s, 'a')", "starts_with(s, '')"],
    "ends_with": ["ends_with(s, 'c')", "ends_with(s, t)"],
    "contains": ["contains(s, t)", "contains(s, '')"],
    "substring": [
        *(f"substring(s, {a}, {b})" for a in (-2, 0, 1, 3, 100) for b in (0, 1, 4, 2147483648)),
        *(f"substring(s, {a})" for a in (-1, 0, 2, 50)), "substring(s, h, 3)", _small("substring(s, i, abs(i))"),
        "substring(s, 2, CASE WHEN y > 0 THEN y END)", "substring(s, n % 100000000000)", "substring(s, NULL, 2)",
    ],
    "left": ["left(s, 2)", "left(s, -2)", "left(s, 0)", "left(s, h)", "left(s, -100)"],
    "right": ["right(s, 2)", "right(s, -2)", "right(s, 0)", "right(s, h)", "right(s, -100)"],
    "repeat": ["repeat(s, 3)", "repeat(s, 0)", "repeat(s, -1)", _small("repeat(s, i)")],
    "concat_ws": ["concat_ws('-', 'x', s, t, i)", "concat_ws(t, 'a', NULL, s)", "concat_ws(NULL, s)"],
    "lpad": ["lpad(s, 5)", "lpad(s, 6, 'xy')", "lpad(s, -1)", "lpad(s, 5, '')", _small("lpad(s, i, t)")],
    "rpad": ["rpad(s, 5)", "rpad(s, 6, 'xy')", "rpad(s, 0, 'x')", "rpad(s, 5, '')", _small("rpad(s, h, t)",
        "h < 1000")],
    "overlay": ["overlay(s, 'XYZ', 2)", "overlay(s, t, 2, 1)", "overlay(s, 'q', 100)", "overlay(s, 'QQ', 3, -1)"],
    "split_part": [f"split_part(s, t, {n})" for n in (1, 2, -1, 9)] + ["split_part(s, '', 1)", "split_part(s, ',', 3)"],
    "translate": ["translate(s, 'abc', 'xy')", "translate(s, t, 'Z')", "translate(s, 'aab', 'xyz')",
        "translate(s, 'ab', '')"],
    "ascii": ["ascii(s)", "ascii(t)"],
    "chr": ["chr(CASE WHEN i BETWEEN 1 AND 1000 THEN i + 64 END)", "chr(8364)", "chr(128512)", "chr(200)"],
    "levenshtein": ["levenshtein(s, t)", "levenshtein(s, 'abd')"],
    "to_hex": ["to_hex(n)"],
    "to_hex_int": ["to_hex(i)", "to_hex(y)"],
    "md5": ["md5(s)", "md5(x)"],
    **{name: [f"{name}(s)", f"{name}(x)"] for name in ("sha224", "sha256", "sha384", "sha512")},
    "encode": ["encode(s, 'hex')", "encode(x, 'base64')", "encode(repeat(s, 20), 'base64')"],
    "decode": ["decode(encode(s, 'hex'), 'hex')", "decode(encode(x, 'base64'), 'base64')", "decode('4A 4b', 'hex')"],
    "quote_literal": ["quote_literal(s)", "quote_literal('it''s')", "quote_literal(i)"],
    "quote_nullable": ["quote_nullable(s)"],
    # patterns
    "regexp_match": [r"s ~ '^a'", r"s ~ 'b$'", r"s ~ '\d+'", r"s ~ '[[:upper:]]{2,}'", r"s ~ 'brown.fox'",
        r"s ~ '[^a-z]'",
                     r"s ~ '\yfox\y'", r"s ~ '(?n)^fox$'", r"s ~ '\w\s\w'", r"s ~ 'ß|語'", r"s ~ '^$'",
                     r"s ~ '[[:punct:]]'",
                     r"s ~ 'x%_y\\z'", r"s !~ 'a.c'", r"s ~ '[]a]'", r"s ~ '\$'", r"s ~ 'c\Z'", r"s ~ '(?n)brown$'"],
    "regexp_imatch": [r"s ~* '^A'", r"s ~* 'GRÖ'", r"s ~* 'quick'"],
    "similar": ["s SIMILAR TO '%(b|Q)%'", "s SIMILAR TO 'a_c'", "s SIMILAR TO '[a-c]+'"],
    "regexp_like": [r"regexp_like(s, 'QUICK')", r"regexp_like(s, 'quick', 'i')", r"regexp_like(s, 'a b c', 'x')"],
    "regexp_replace": [r"regexp_replace(s, '[a-c]', 'X')", r"regexp_replace(s, '[a-c]', 'X', 'g')",
                       r"regexp_replace(s, '(.)(.)', '\2\1', 'g')", r"regexp_replace(s, '(.)(.)', '<\2\1>')",
                       r"regexp_replace(s, 'q', '$1\\', 'gi')", r"regexp_replace(s, '^', '>')",
                       r"regexp_replace(s, '\s+', '[\&]', 'g')",
                       r"regexp_replace(s, 'x*', '-')"],
    "regexp_substr": [r"regexp_substr(s, '[a-z]+')", r"regexp_substr(s, '[a-z]', 1, 2)",
        r"regexp_substr(s, '(.)(.)', 1, 1, '', 2)",
                      r"regexp_substr(s, 'zzz')", r"regexp_substr(s, '[A-Z]+', 1, 1, 'i')"],
    "regexp_capture": [r"substring(s FROM '[a-z]+')", r"substring(s FROM '(.)c')"],
    "regexp_count": [r"regexp_count(s, '[a-z]')", r"regexp_count(s, '[A-Z]', 1, 'i')"],
    "regexp_instr": [r"regexp_instr(s, '[b-z]')", r"regexp_instr(s, 'q')"],
    # dates
    **{name: [f"EXTRACT({name} FROM day)", f"EXTRACT({name} FROM ts)"] for name in _PARTS},
    **{name: [f"EXTRACT({name} FROM ts)"] for name in _CLOCK},
    "second": ["second(ts)", "second(INTERVAL '01:02:03.5')", "second(ts - TIMESTAMP '2000-01-01')"],
    "seconds": ["EXTRACT(second FROM ts)"],
    "epoch": ["EXTRACT(epoch FROM ts)", "EXTRACT(epoch FROM day)",
        "EXTRACT(epoch FROM INTERVAL '1 year 2 months 3 days 1 hour')"],
    "day": ["day(day)", "EXTRACT(day FROM ts - TIMESTAMP '2000-01-01')", "EXTRACT(month FROM INTERVAL '14 months')"],
    "hour": ["hour(ts)", "EXTRACT(hour FROM ts - TIMESTAMP '1999-01-01 05:06:07')"],
    "julian": ["date_part('julian', day)"],
    "date_trunc": [
        *(f"date_trunc('{unit}', CASE WHEN k <> 3 THEN ts END)" for unit in _UNITS),
        *(f"date_trunc('{unit}', day)" for unit in _UNITS[3:8]),
        "CASE WHEN k <> 3 THEN date_trunc('decade', day) END", "date_trunc('century', day)",
    ],
    "dayname": ["dayname(day)", "dayname(ts)"],
    "monthname": ["monthname(day)"],
    "last_day": ["last_day(day)", "last_day(ts)"],
    "add_months": ["CASE WHEN k <> 4 THEN add_months(day, 1) END", "CASE WHEN k <> 3 THEN add_months(ts, -13) END"],
    "months_between": ["months_between(day, DATE '2000-02-29')",
        "months_between(ts, TIMESTAMP '2000-01-31 12:30:00.5')",
                       "months_between(day, ts)"],
    "datediff": [*(f"datediff('{unit}', DATE '1999-12-31', day)" for unit in _UNITS),
                 *(f"datediff('{unit}', TIMESTAMP '1999-12-31 23:59:59.9', ts)" for unit in _UNITS)],
    "date_bin": ["date_bin(INTERVAL '15 minutes', ts, TIMESTAMP '2001-01-01')",
        "CASE WHEN k <> 3 THEN date_bin(INTERVAL '3 days', ts) END"],
    "make_date": ["make_date(2013, 7, CASE WHEN k < 9 THEN k + 1 END)"],
    "make_timestamp": ["make_timestamp(2013, 7, 15, 8, k, 23.5)"],
    "make_interval": ["ts < TIMESTAMP '2020-01-01' + make_interval(0, 2, 0, k)"],
    "from_epoch": ["to_timestamp(CASE WHEN i > -2000000000 THEN i END)", "to_timestamp(d)", "to_timestamp(0.5 + k)"],
    "to_char_date": ["to_char(ts, 'YYYY-MM-DD HH24:MI:SS')", "to_char(day, 'DD/MM/YYYY')",
        "to_char(ts, 'HH12:MI:SS.US')"],
    "interval_add": ["(ts - TIMESTAMP '2000-01-01') + INTERVAL '1 hour' > INTERVAL '1 day'"],
    "interval_sub": ["(ts - TIMESTAMP '2000-01-01') - INTERVAL '1 day' > INTERVAL '1 day'"],
    "interval_neg": ["-(ts - TIMESTAMP '2000-01-01') > INTERVAL '1 day'"],
    "interval_mul": ["(ts - TIMESTAMP '2000-01-01') * 3 > INTERVAL '1 month'"],
    "interval_between": ["ts - TIMESTAMP '2000-01-01' > INTERVAL '0 days'", "ts - day < INTERVAL '12 hours'"],
    "interval_length": ["ts - TIMESTAMP '2024-01-31' < INTERVAL '1 month'"],
    "random": ["random() < 1"],
    "gen_random_uuid": ["length(gen_random_uuid())"],
}  # fmt: skip

_NUMBERS = ("i", "n", "h", "y", "d", "w", "f", "g")
_SPELT = ("'1'", "' -7 '", "'1.5'", "'1e3'", "'true'", "'off'", "'2024-2-29'", "'2024-02-30'", "'nan'", "'1d'", "''",
          "'2024-02-29 1:02:03.5'", "'abc'", "'99999999999999999999'", "'y'", "'inf'", "'+5'", "'.5'", "'1_0'",
          "'2024-02-29T10:00:00'", "'on'", "'1.'", "'infinity'")  # fmt: skip

CASTS: Final = [
    *(f"CAST({name} AS VARCHAR)" for name in ("i", "n", "h", "y", "d", "w", "f", "b", "day", "ts", "s")),
    "CAST(f / 3 AS VARCHAR)", "CAST(f / 7e10 AS VARCHAR)", "CAST(-0e0 AS VARCHAR)", "CAST(f * 1e10 AS VARCHAR)",
        "CAST(d AS VARCHAR(3))", "CAST(s AS VARCHAR(4))",
    *(f"TRY_CAST({name} AS {type_})" for name in _NUMBERS
      for type_ in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(5,1)", "DECIMAL(38,0)", "DECIMAL(38,12)", "DOUBLE",
                    "FLOAT")),
    *(f"TRY_CAST(concat({text}, left(s, 0)) AS {type_})"
      for text in _SPELT for type_ in ("INT", "DECIMAL(9,2)", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP")),
    "CAST(b AS INT)", "CAST(i AS BOOLEAN)", "CAST(day AS TIMESTAMP)", "CAST(ts AS DATE)",
    "CAST(replace(s, '\\', '\\\\') AS BINARY)", "TRY_CAST(s AS BINARY)",
    "CAST(concat('\\x61 ', left(s, 0), '62') AS BINARY)",
    "TRY_CAST(concat('\\x6', left(s, 0)) AS BINARY)", "TRY_CAST(concat('\\x', left(s, 0)) AS BINARY)",
    "TRY_CAST(x AS VARCHAR)",
]  # fmt: skip

FAILURES: Final = (
    "i / 0", "1.0 / (d - d)", "f * 1e308 * 1e308", "CAST(s AS INT)", "CAST(n + 5000000000 AS INT)", "sqrt(f - 1e30)",
    "substring(s, 1, i - 2147483647)", "make_date(2023, 2, 30)", "CAST(concat(s, '\\') AS BINARY)",
)  # fmt: skip
"""Over the rows 1, 2 and 9 each is an error, in both engines."""

AGGREGATES: Final[dict[str, list[str]]] = {
    "count": ["count(*)", "count(i)", "count(DISTINCT b)", "count(*) FILTER (WHERE i > 0)", "count_if(b)",
        "count(DISTINCT f)"],
    "sum": ["sum(i)", "sum(n)", "sum(d)", "sum(h)", "sum(DISTINCT y)", "sum(d) FILTER (WHERE i < 0)",
            "sum(CASE WHEN abs(f) < 1e9 THEN f END)", "sum(w)", "sum(d * d)"],
    "avg": ["avg(i)", "avg(n)", "avg(d)", "avg(w)", "avg(DISTINCT h)", "avg(d) FILTER (WHERE b)", "avg(f)",
        "avg(d * 1.00000)",
            "avg(CAST(d AS DECIMAL(38,20)))"],
    "min": ["min(i)", "min(s)", "min(f)", "min(day)", "min(ts)", "min(d)"],
    "max": ["max(i)", "max(s)", "max(f)", "max(day)", "max(ts)", "max(g)"],
    "min_by": ["min_by(s, k)", "min_by(k, d)"],
    "max_by": ["max_by(s, k)", "max_by(k, d)"],
    "any_value": ["any_value(s ORDER BY k)", "any_value(i ORDER BY k DESC)", "any_value(1)",
        "any_value(k ORDER BY b NULLS FIRST, i)"],
    "bool_and": ["bool_and(b)", "every(i > -10000000000)"],
    "bool_or": ["bool_or(b)"],
    "bit_and": ["bit_and(i)", "bit_and(y)"],
    "bit_or": ["bit_or(i)", "bit_or(h)"],
    "bit_xor": ["bit_xor(i)", "bit_xor(n)"],
    "string_agg": ["string_agg(s, ', ' ORDER BY k)", "string_agg(DISTINCT t, '' ORDER BY t DESC)",
                   "string_agg(s, '-' ORDER BY k DESC) FILTER (WHERE i > 0)"],
    "mode": ["mode() WITHIN GROUP (ORDER BY b)", "mode() WITHIN GROUP (ORDER BY y % 2)", "mode(i)"],
    "percentile_cont": ["percentile_cont(0.25) WITHIN GROUP (ORDER BY i)", "median(d)", "quantile_cont(y, 0.9)",
                        "percentile_cont(0.4) WITHIN GROUP (ORDER BY h DESC)", "median(DISTINCT y % 3)"],
    "percentile_disc": ["percentile_disc(0.25) WITHIN GROUP (ORDER BY i)",
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY s)",
                        "percentile_disc(0) WITHIN GROUP (ORDER BY day DESC)", "quantile_disc(i, 1)"],
    "product": ["product(y)", "product(DISTINCT h % 5)"],
    "approx_count_distinct": ["approx_count_distinct(y)", "approx_count_distinct(s)"],
    **{name: [f"{name}(i)", f"{name}(d)", f"{name}(DISTINCT y)"] for name in ("var_samp", "var_pop", "stddev_samp",
        "stddev_pop")},
    **{
        name: [f"{name}(y, h)", f"{name}(i, d)", f"{name}(y, 1)"]
        for name in ("covar_samp", "covar_pop", "corr", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy",
                     "regr_sxy", "regr_slope", "regr_intercept", "regr_r2")
    },
}  # fmt: skip

_OVER = "OVER (PARTITION BY b ORDER BY k)"

WINDOWS: Final[dict[str, list[str]]] = {
    **{name: [f"{name}() OVER (ORDER BY b, y % 2)" if name != "row_number" else f"{name}() {_OVER}"]
       for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")},
    "ntile": [f"ntile(2) {_OVER}", "ntile(3) OVER (ORDER BY k DESC)"],
    "lag": [f"lag(i) {_OVER}", f"lag(i, 2, 0) {_OVER}", f"lag(i, -1) {_OVER}", f"lag(h) IGNORE NULLS {_OVER}",
        f"lag(i, 0) {_OVER}"],
    "lead": [f"lead(s) {_OVER}", f"lead(i, 2, 7) {_OVER}"],
    "first_value": [f"first_value(i) {_OVER}", "first_value(b) IGNORE NULLS OVER (ORDER BY k ROWS 3 PRECEDING)"],
    "last_value": [f"last_value(i) {_OVER}",
        "last_value(i) OVER (ORDER BY k ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING)"],
    "nth_value": [f"nth_value(i, 2) {_OVER}", "nth_value(k, 2) OVER (ORDER BY k DESC ROWS UNBOUNDED PRECEDING)"],
    "frames": [
        "sum(i) OVER ()", "count(*) OVER (PARTITION BY b)", "sum(d) OVER (ORDER BY b)",
        "avg(h) OVER (ORDER BY k ROWS 2 PRECEDING)",
        "sum(y) OVER (ORDER BY i RANGE BETWEEN 3 PRECEDING AND 5 FOLLOWING)",
        "count(*) OVER (ORDER BY d DESC RANGE BETWEEN 1.5 PRECEDING AND CURRENT ROW)",
        "count(*) OVER (ORDER BY CASE WHEN k > 4 THEN day END RANGE INTERVAL '40 days' PRECEDING)",
        "count(*) OVER (ORDER BY CASE WHEN k > 4 THEN ts END RANGE BETWEEN INTERVAL '36 hours' PRECEDING AND "
        "INTERVAL '1 day' FOLLOWING)",
        "count(*) OVER (ORDER BY b GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)", "max(s) OVER (ORDER BY b NULLS FIRST)",
        "sum(i) FILTER (WHERE i > 0) OVER (ORDER BY k)", "count(*) FILTER (WHERE b) OVER (ORDER BY k)",
        "stddev_samp(h) OVER (ORDER BY k)",
        "sum(y) OVER (ORDER BY b DESC GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)",
        "bool_or(b) OVER (ORDER BY k)",
        "min(f) OVER (PARTITION BY b)", "count(*) OVER (ORDER BY f RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    ],
}  # fmt: skip
