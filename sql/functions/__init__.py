"""The function registry: names, accepted arguments, result types and nullability.

    text  numbers  dates  conditional  aggregates  windows     the functions, each with description and example
      └──────┴───────┴─────────┴───────────┴─────────┘
                          registry                             REGISTRY, look_up, build
                          reference                            the documentation's page, made from it

`build(name, args)` makes the bound node for a call; the executor finds its kernels by *canonical* names, which are all
listed in `OPERATIONS` and `AGGREGATES`. Aliases (`substr`, `char_length`, `ceiling`) and shorthands (`nullif`, `concat`
of several) are resolved before.

Scalars give NULL where any argument is NULL, except those that say otherwise (`Operation.skips_nulls`). Texts are
counted in characters, from 1.
"""

from __future__ import annotations

from .dates import CLOCKS, FIELDS, date_part, field_name
from .function import Function, call, comparable
from .operators import OPERATORS
from .registry import AGGREGATES, FUNCTIONS, OPERATIONS, REGISTRY, build, check_count, is_volatile, look_up
from .text import pattern_checks

__all__ = [
    "AGGREGATES",
    "CLOCKS",
    "FIELDS",
    "FUNCTIONS",
    "Function",
    "OPERATIONS",
    "OPERATORS",
    "REGISTRY",
    "build",
    "call",
    "check_count",
    "comparable",
    "date_part",
    "field_name",
    "is_volatile",
    "look_up",
    "pattern_checks",
]
