"""Resolves GROUP BY to its expressions, and to the expressions of each grouping set.

    GROUP BY a, ROLLUP (b, c)      groups a, b, c      sets (a, b, c), (a, b), (a)

Each element is a list of sets: an expression is one set, ROLLUP its prefixes, CUBE all subsets, GROUPING SETS the sets
of its elements. Several elements are multiplied: every set of one with every set of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeAlias

from ....errors import NotSupportedError
from ....model.lazy_dataclass import dataclass
from ....model.types import BOOLEAN, INT
from ...expressions import Case, Column, Expr, InValues, Literal

ExprSet: TypeAlias = tuple[Expr, ...]
"""A grouping set by its expressions."""
IndexSet: TypeAlias = tuple[int, ...]
"""A grouping set by positions among all grouping expressions, ascending."""

MOST_SETS = 4096
MOST_CUBE = 12


@dataclass(frozen=True, slots=True)
class GroupBy:
    """The grouping expressions and, if there is more than one set, the sets.

    `number` is then the column with the 0-based number of a row's set.
    """

    groups: tuple[Expr, ...]
    sets: tuple[IndexSet, ...] | None = None
    number: Column | None = None

    @property
    def has_rows(self) -> bool:
        """True if every group has a row; only the empty set makes a group of no rows."""
        return bool(self.groups) if self.sets is None else all(self.sets)

    def is_everywhere(self, position: int) -> bool:
        """True if the group is in every set, so that it is NULL only if its expression is."""
        return self.sets is None or all(position in chosen for chosen in self.sets)


def rollup(parts: Sequence[ExprSet]) -> list[ExprSet]:
    """The prefixes of a list, the whole first, the empty one last."""
    return [_union(parts[:length]) for length in range(len(parts), -1, -1)]


def cube(parts: Sequence[ExprSet]) -> list[ExprSet]:
    """All subsets of a list, the whole first, the empty one last."""
    if len(parts) > MOST_CUBE:
        raise NotSupportedError(
            f"CUBE of {len(parts)} elements makes 2**{len(parts)} grouping sets; at most {MOST_CUBE} are supported"
        )
    choices = product((True, False), repeat=len(parts))
    return [_union([part for part, wanted in zip(parts, chosen) if wanted]) for chosen in choices]


def multiply(elements: Iterable[Sequence[ExprSet]]) -> list[ExprSet]:
    """Each set of one element with each set of the others."""
    found: list[ExprSet] = [()]
    for sets in elements:
        if len(found) * len(sets) > MOST_SETS:
            raise NotSupportedError(f"GROUP BY makes more than {MOST_SETS:,} grouping sets")
        found = [_union([left, right]) for left in found for right in sets]
    return found


def _union(parts: Iterable[ExprSet]) -> ExprSet:
    return tuple(dict.fromkeys(expr for part in parts for expr in part))


def index_sets(sets: Sequence[ExprSet], distinct: bool) -> tuple[tuple[Expr, ...], list[IndexSet]]:
    """All expressions, and the sets as positions among them; with `distinct`, each set once."""
    groups = _union(sets)
    place = {expr: i for i, expr in enumerate(groups)}
    indexed = [tuple(sorted(place[expr] for expr in chosen)) for chosen in sets]
    return groups, list(dict.fromkeys(indexed)) if distinct else indexed


def grouping_value(places: Sequence[int], sets: Sequence[IndexSet], number: Column) -> Expr:
    """GROUPING of the groups at `places`, computed from the column of set numbers."""
    masks = [sum((place not in chosen) << i for i, place in enumerate(reversed(places))) for chosen in sets]
    by_mask: dict[int, list[int]] = {}
    for position, mask in enumerate(masks):
        by_mask.setdefault(mask, []).append(position)
    # The most frequent mask needs no test.
    default = max(by_mask, key=lambda mask: len(by_mask[mask]))
    branches = []
    for mask, positions in by_mask.items():
        if mask != default:
            items = tuple(Literal(number.type, False, position) for position in positions)
            branches.append((InValues(BOOLEAN, False, number, items), Literal(INT, False, mask)))
    value = Literal(INT, False, default)
    return Case(INT, False, tuple(branches), value) if branches else value
