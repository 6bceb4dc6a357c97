"""Records of operations: those that operators are bound into, and those of functions that have another name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .function import Operation

_OPERATORS = (
    Operation("add", overflows=True, cheap=True, null_with_arguments=True),
    Operation("sub", overflows=True, cheap=True, null_with_arguments=True),
    Operation("mul", overflows=True, cheap=True, null_with_arguments=True),
    Operation("div", fallible=True, null_with_arguments=True),
    Operation("mod", fallible=True, null_with_arguments=True),
    Operation("neg", overflows=True, cheap=True, null_with_arguments=True),
    Operation("eq", cheap=True, null_with_arguments=True),
    Operation("ne", cheap=True, null_with_arguments=True),
    Operation("lt", cheap=True, null_with_arguments=True),
    Operation("le", cheap=True, null_with_arguments=True),
    Operation("gt", cheap=True, null_with_arguments=True),
    Operation("ge", cheap=True, null_with_arguments=True),
    Operation("is_distinct", skips_nulls=True),
    Operation("saturated", cheap=True, null_with_arguments=True),
    Operation("limit_before"),
    Operation("limit_after"),
    Operation("and", cheap=True),
    Operation("or", cheap=True),
    Operation("not", cheap=True, null_with_arguments=True),
    Operation("is_null", cheap=True, skips_nulls=True),
    Operation("is_true", cheap=True, skips_nulls=True),
    Operation("is_false", cheap=True, skips_nulls=True),
    Operation("like", null_with_arguments=True),
    Operation("ilike", null_with_arguments=True),
    Operation("concat", null_with_arguments=True),
    Operation("regexp_match", fallible=True),
    Operation("regexp_imatch", fallible=True),
    Operation("similar", fallible=True),
    Operation("bitwise_and"),
    Operation("bitwise_or"),
    Operation("bitwise_xor"),
    Operation("bitwise_not"),
    Operation("shift_left"),
    Operation("shift_right"),
    Operation("interval_add", fallible=True),
    Operation("interval_sub", fallible=True),
    Operation("interval_neg", fallible=True),
    Operation("interval_mul", fallible=True),
    Operation("interval_div", fallible=True),
    Operation("interval_between"),
    Operation("interval_length", fallible=True),
)

OPERATORS: Mapping[str, Operation] = MappingProxyType({operation.name: operation for operation in _OPERATORS})
"""Operators, by canonical name. `like` and `ilike` escape with a backslash, `concat` takes two or more texts,
`saturated` stands below comparisons (`coercion.comparands`), limits in the frames of windows
(`binding.expressions.windows`)."""

INTERNAL = (
    Operation("array_cat", fallible=True, skips_nulls=True),
    Operation("array_contains", fallible=True, skips_nulls=True),
    Operation("array_element", fallible=True),
    Operation("array_join", skips_nulls=True),
    Operation("array_quote", skips_nulls=True),
    Operation("catalog_text"),
    Operation("century"),
    Operation("decade"),
    Operation("from_epoch", fallible=True),
    Operation("julian"),
    Operation("microseconds"),
    Operation("millennium"),
    Operation("milliseconds"),
    Operation("record_field"),
    Operation("regexp_capture", fallible=True),
    Operation("round_per_row", fallible=True),
    Operation("seconds"),
    Operation("to_char_date"),
    Operation("to_char_number"),
    Operation("to_hex_int"),
    Operation("whole_quotient", fallible=True),
)
"""Operations without a function of that name; functions are built into them, depending on their arguments."""
