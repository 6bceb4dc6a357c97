"""Functions that may raise an error for a row: `tests/executor/expressions/test_fallible.py` calls all to find them."""

from __future__ import annotations

from typing import Final

_NAMES = """
    abs acos acosh add_months asin atanh ceil chr cos cosh cot date_bin
    date_trunc decode degrees div encode epoch exp factorial floor format
    from_epoch gcd interval_add interval_div interval_length interval_mul interval_neg
    interval_sub justify_days justify_hours justify_interval lcm ln log log10 log2
    lpad make_date make_interval make_timestamp mod overlay power regexp_capture
    regexp_count regexp_imatch regexp_instr regexp_like regexp_match regexp_replace
    regexp_substr repeat round round_per_row rpad similar sin sinh split_part
    sqrt substring tan to_date to_number to_timestamp trunc whole_quotient
    width_bucket
"""

FALLIBLE: Final = frozenset(_NAMES.split())
"""Canonical names of functions that may raise an error for a row (division by zero, out of range).

They are not computed for rows that do not need them: branches of a CASE not taken, rows that an earlier condition
filtered out.
"""

OVERFLOWING: Final = frozenset(("add", "sub", "mul", "neg"))
"""Functions that may raise an error for a row if the result's type does not hold every result of the operands' types.
"""
