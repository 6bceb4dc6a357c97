"""Functions of other databases that nyala does not have, with alternatives.

The names are those of DuckDB, PostgreSQL, SQLite, MySQL, SQL Server and Spark. The alternative is an expression, or a
sentence if nyala has none. Function calls in it have a parenthesis, so that a test can look up each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_ARRAYS = "there are no arrays; string_agg(text, separator) joins texts of a group"
_NO_JSON = "there is no JSON type; regexp_substr(text, pattern) takes parts out of a text"
_NO_ZONES = "timestamps are in UTC; a fixed distance is added as an interval, such as t + INTERVAL '2' HOUR"
_NO_LAST_ID = "INSERT ... RETURNING gives back what was written"
_NO_SEQUENCES = "there are no sequences; gen_random_uuid() makes ids, and so does a NON UNIQUE PRIMARY KEY"

_TEXT: Final = {
    "len": "length(text)",
    "lcase": "lower(text)",
    "ucase": "upper(text)",
    "char": "chr(code)",
    "ord": "ascii(text)",
    "unicode": "ascii(text)",
    "instr": "strpos(text, part)",
    "charindex": "strpos(text, part), the other way round",
    "locate": "strpos(text, part), the other way round",
    "mid": "substring(text, start, length)",
    "substring_index": "split_part(text, separator, n)",
    "startswith": "starts_with(text, prefix)",
    "endswith": "ends_with(text, suffix)",
    "prefix": "starts_with(text, prefix)",
    "suffix": "ends_with(text, suffix)",
    "regexp_extract": "regexp_substr(text, pattern), or regexp_substr(text, pattern, 1, 1, '', 1) for a group",
    "regexp_extract_all": "regexp_substr(text, pattern, 1, n) for the n-th",
    "regexp_matches": "regexp_like(text, pattern)",
    "regexp_match": "regexp_substr(text, pattern)",
    "regexp_full_match": "regexp_like(text, '^(pattern)$')",
    "regexp": "regexp_like(text, pattern)",
    "rlike": "regexp_like(text, pattern)",
    "regexp_split_to_array": "split_part(text, separator, n)",
    "string_split": "split_part(text, separator, n)",
    "str_split": "split_part(text, separator, n)",
    "split": "split_part(text, separator, n)",
    "printf": "format(template, value, ...)",
    "format_string": "format(template, value, ...)",
    "quote": "quote_literal(value)",
    "editdist3": "levenshtein(text, text)",
    "unhex": "decode(text, 'hex')",
    "from_hex": "decode(text, 'hex')",
    "base64": "encode(binary, 'base64')",
    "to_base64": "encode(binary, 'base64')",
    "from_base64": "decode(text, 'base64')",
    "unbase64": "decode(text, 'base64')",
    "sha2": "sha256(text), sha224(text), sha384(text) or sha512(text)",
}
_NUMBERS: Final = {
    "rand": "random()",
    "randomblob": "gen_random_uuid()",
    "sqr": "x * x",
    "fmod": "mod(number, number)",
    "try_divide": "x / nullif(y, 0)",
    "signum": "sign(number)",
    "is_nan": "isnan(number)",
    "newid": "gen_random_uuid()",
    "uuid_generate_v4": "gen_random_uuid()",
    "uuidv4": "gen_random_uuid()",
}
_TIMES: Final = {
    "strftime": "to_char(time, 'YYYY-MM-DD HH24:MI:SS'), the time first",
    "strptime": "to_timestamp(text, 'YYYY-MM-DD HH24:MI:SS')",
    "date_format": "to_char(time, 'YYYY-MM-DD HH24:MI:SS')",
    "str_to_date": "to_date(text, 'YYYY-MM-DD')",
    "time_bucket": "date_bin(INTERVAL '15' MINUTE, time), or date_trunc('hour', time)",
    "time_slice": "date_bin(INTERVAL '15' MINUTE, time)",
    "dateadd": "date_add(time, INTERVAL '1' DAY), or time + INTERVAL '1' DAY",
    "adddate": "date_add(date, INTERVAL '1' DAY)",
    "subdate": "date_subtract(date, INTERVAL '1' DAY)",
    "timestampadd": "date_add(time, INTERVAL '1' DAY)",
    "timestampdiff": "datediff('unit', start, end)",
    "julianday": "datediff('day', start, end), or date - date",
    "datepart": "date_part('field', time)",
    "datetrunc": "date_trunc('unit', time)",
    "dayofweek": "dow(date), which counts from Sunday = 0",
    "weekday": "isodow(date), which counts from Monday = 1",
    "dayofmonth": "day(date)",
    "dayofyear": "doy(date)",
    "weekofyear": "week(date)",
    "unix_timestamp": "epoch(timestamp)",
    "unixepoch": "epoch(timestamp)",
    "epoch_ms": "epoch(timestamp) * 1000, or to_timestamp(milliseconds / 1000.0) the other way",
    "from_unixtime": "to_timestamp(seconds)",
    "getdate": "now()",
    "sysdate": "now()",
    "clock_timestamp": "now()",
    "curdate": "current_date",
    "today": "current_date",
    "eomonth": "last_day(date)",
    "timezone": _NO_ZONES,
    "convert_tz": _NO_ZONES,
    "from_utc_timestamp": _NO_ZONES,
    "to_utc_timestamp": _NO_ZONES,
}
_VALUES: Final = {
    "isnull": "x IS NULL, or coalesce(x, instead)",
    "zeroifnull": "coalesce(x, 0)",
    "nullifzero": "nullif(x, 0)",
    "choose": "CASE n WHEN 1 THEN ... END",
    "safe_cast": "TRY_CAST(x AS type)",
    "convert": "CAST(x AS type)",
    "json_extract": _NO_JSON,
    "json_extract_string": _NO_JSON,
    "get_json_object": _NO_JSON,
    "json_object": _NO_JSON,
    "to_json": _NO_JSON,
}
_GROUPS: Final = {
    "any": "any_value(value)",
    "list": _NO_ARRAYS,
    "collect_list": _NO_ARRAYS,
    "collect_set": _NO_ARRAYS,
    "json_agg": _NO_ARRAYS,
    "jsonb_agg": _NO_ARRAYS,
    "json_group_array": _NO_ARRAYS,
    "explode": "there are no arrays; VALUES (1), (2) or generate_series(start, stop) gives rows",
    "first": "min_by(value, key), or first_value(value) OVER (ORDER BY key)",
    "last": "max_by(value, key), or last_value(value) OVER (ORDER BY key)",
    "argmax": "max_by(value, key)",
    "argmin": "min_by(value, key)",
    "countif": "count_if(condition)",
    "sumif": "sum(value) FILTER (WHERE condition)",
    "approx_distinct": "approx_count_distinct(value)",
    "approx_quantile": "quantile_cont(number, fraction)",
    "approx_percentile": "quantile_cont(number, fraction)",
    "percentile": "quantile_cont(number, fraction)",
    "quantile": "quantile_disc(value, fraction)",
    "stdev": "stddev(number)",
    "std": "stddev_pop(number)",
    "mean": "avg(number)",
    "total": "coalesce(sum(number), 0)",
    "logical_and": "bool_and(condition)",
    "logical_or": "bool_or(condition)",
    "histogram": "GROUP BY width_bucket(number, low, high, count)",
}
_SERVER: Final = {
    "last_insert_rowid": _NO_LAST_ID,
    "last_insert_id": _NO_LAST_ID,
    "lastval": _NO_LAST_ID,
    "nextval": _NO_SEQUENCES,
    "currval": _NO_SEQUENCES,
    "sqlite_version": "nyala.__version__ has it in Python, `nyala --version` in a shell",
    "sleep": "time.sleep of the program",
    "pg_sleep": "time.sleep of the program",
}

FOREIGN: Mapping[str, str] = MappingProxyType({**_TEXT, **_NUMBERS, **_TIMES, **_VALUES, **_GROUPS, **_SERVER})
"""The alternative for a foreign name in lower case."""


def instead_of(name: str) -> str:
    """The end of the error message for an unknown function; "" if the name is not a foreign one either.

    >>> instead_of("len"), instead_of("frobnicate")
    ('; nyala has length(text)', '')
    """
    found = FOREIGN.get(name, "")
    if not found:
        return ""
    is_sentence = found.split()[0] in ("there", "timestamps", "INSERT", "nyala.__version__", "time.sleep")
    return f"; {'' if is_sentence else 'nyala has '}{found}"
