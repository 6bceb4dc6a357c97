"""Order in which the relations of a cluster of inner joins are joined.

Up to `EXHAUSTIVE` relations: dynamic programming over connected subsets, with bushy trees and both build sides
(Moerkotte and Neumann, VLDB 2006). Plain subset enumeration is used, which is faster in Python at this size. Beyond:
greedily the cheapest next join (Fegaras 1998).

A subset's row count does not depend on the order of its joins: leaves times the selectivities of all predicates inside.
Equal columns form classes; a class with k members in a subset stands for k - 1 equalities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ...model.lazy_dataclass import dataclass
from ...sql.expressions import Call, Column, Expr
from ..algebra.logical import Join, Node, Scan
from ..algebra.properties import Equivalence
from ..algebra.trees import all_of, call, column_equality, column_ids, columns_in, filtered
from ..estimates.cardinality import IMPLIED
from ..estimates.cost import Cost, CostModel, KeyPair

EXHAUSTIVE = 10


@dataclass(frozen=True, slots=True)
class _Plan:
    """The best known way to join a subset: probe and build subsets, 0 for a leaf."""

    cost: Cost
    rows: float
    probe: int = 0
    build: int = 0


@dataclass(slots=True)
class JoinGraph:
    """Relations as bits, predicates as masks over them."""

    leaves: list[Node]
    predicates: list[Expr]
    model: CostModel
    classes: list[list[tuple[int, Column]]] = field(default_factory=list)
    others: list[tuple[int, Expr, float]] = field(default_factory=list)
    _class_masks: list[int] = field(default_factory=list)
    _neighbours: list[int] = field(default_factory=list)
    _rows: list[float] = field(default_factory=list)
    _whole: list[float] = field(default_factory=list)
    _keyed: list[tuple[int, frozenset[int], float]] = field(default_factory=list)
    _inside: dict[tuple[int, int], list[Column]] = field(default_factory=dict)
    _met: dict[tuple[int, int], float] = field(default_factory=dict)
    _touched: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        owner = {number: i for i, leaf in enumerate(self.leaves) for number in column_ids(leaf)}
        pairs: list[tuple[Column, Column]] = []
        rest: list[Expr] = []
        for part in self.predicates:
            pair = column_equality(part)
            if pair and pair[0].type == pair[1].type and owner[pair[0].id] != owner[pair[1].id]:
                pairs.append(pair)
            else:
                rest.append(part)
        self._make_classes(pairs, owner)
        for part in [part for part in rest if len({owner[number] for number in columns_in(part)}) == 1]:
            home = owner[min(columns_in(part))]
            self.leaves[home] = filtered(self.leaves[home], part)
            rest.remove(part)
        estimator = self.model.estimator
        self._rows = [max(estimator.rows(leaf), 0.01) for leaf in self.leaves]
        self._whole = [self._whole_rows(leaf) for leaf in self.leaves]
        for part in rest:
            mask = 0
            for number in columns_in(part):
                mask |= 1 << owner[number]
            is_or = isinstance(part, Call) and part.function == "or"
            self.others.append((mask, part, IMPLIED if is_or else estimator.selectivity(part)))
        self._neighbours = [0] * len(self.leaves)
        masks = [mask for mask, _, _ in self.others if mask.bit_count() == 2]
        for members in self.classes:
            masks += [1 << i | 1 << j for i, _ in members for j, _ in members if i < j]
        for mask in masks:
            for i in bits(mask):
                self._neighbours[i] |= mask & ~(1 << i)
        self.model.shares = {}
        self._keyed = [
            (i, key, 1 / max(1.0, n)) for i, leaf in enumerate(self.leaves) for key, n in estimator.keyed(leaf)
        ]

    def _make_classes(self, pairs: list[tuple[Column, Column]], owner: dict[int, int]) -> None:
        columns = {column.id: column for pair in pairs for column in pair}
        for numbers in Equivalence((a.id, b.id) for a, b in pairs).classes():
            seen: dict[int, Column] = {}
            for number in numbers:
                leaf = owner[number]
                if leaf in seen:
                    # Both equal a third column, so the leaf's own rows must agree.
                    equality = call("eq", seen[leaf], columns[number])
                    self.leaves[leaf] = filtered(self.leaves[leaf], equality)
                else:
                    seen[leaf] = columns[number]
            self.classes.append(sorted(seen.items()))
            self._class_masks.append(sum(1 << leaf for leaf in seen))

    def _whole_rows(self, leaf: Node) -> float:
        scan = leaf
        while not isinstance(scan, Scan):
            inputs = scan.children()
            if not inputs:
                return self.model.estimator.rows(leaf)
            scan = inputs[0]
        return max(self.model.estimator.rows(leaf), float(self.model.estimator.table(scan).row_count))

    # ---- estimates ---------------------------------------------------------------------------------------------

    def rows(self, mask: int) -> float:
        """Estimated number of rows of the join of a subset."""
        total = 1.0
        for i in bits(mask):
            total *= self._rows[i]
        factors: dict[int, float] = {}
        linked: dict[int, set[int]] = {}
        for linking, members in zip(self._class_masks, self.classes, strict=True):
            if (linking & mask).bit_count() > 1:
                self._class_factors([m for m in members if mask >> m[0] & 1], factors, linked)
        for i, key, share in self._keyed:
            if mask >> i & 1 and key <= linked.get(i, set()):
                # The columns of one key are not independent: a row has at most one partner by it.
                factors[i] = max(factors.get(i, 1.0), share)
        for factor in factors.values():
            total *= factor
        for needed, _, share in self.others:
            if needed & mask == needed:
                total *= share
        return max(total, 0.01)

    def _class_factors(
        self, inside: list[tuple[int, Column]], factors: dict[int, float], linked: dict[int, set[int]]
    ) -> None:
        # The largest table refers to the others; each of them reduces its rows by its number of keys.
        free, free_column = max(inside, key=lambda member: self._whole[member[0]])
        for i, column in inside:
            linked.setdefault(i, set()).add(column.id)
            if i != free:
                pair = column.id, free_column.id
                most = self._met.get(pair)
                if most is None:
                    met = self.model.estimator.keys_met
                    keys = met(column, free_column, self._rows[i]), met(free_column, column, self._rows[free])
                    most = self._met[pair] = max(1.0, *keys)
                factors[i] = factors.get(i, 1.0) / most

    # ---- joining two subsets -----------------------------------------------------------------------------------

    def key_pairs(self, probe: int, build: int, carriers: frozenset[int]) -> list[KeyPair]:
        """Return one equality per class with members in both subsets, preferring a member that takes a runtime
        filter."""
        pairs: list[KeyPair] = []
        for number in self._classes_of(probe):
            mask = self._class_masks[number]
            if mask & build:
                left = self._members(number, mask & probe)
                taking = left[0] if len(left) == 1 else next((c for c in left if c.id in carriers), left[0])
                pairs.append(KeyPair(taking, self._members(number, mask & build)[0]))
        return pairs

    def _members(self, number: int, mask: int) -> list[Column]:
        """Columns of a class that the relations of a mask have."""
        members = self._inside.get((number, mask))
        if members is None:
            members = self._inside[number, mask] = [c for i, c in self.classes[number] if mask >> i & 1]
        return members

    def is_keyed(self, first: int, second: int) -> bool:
        """True if an equality of columns links two subsets."""
        return any(self._class_masks[number] & second for number in self._classes_of(first))

    def _classes_of(self, mask: int) -> list[int]:
        """Classes of columns with members in a subset."""
        classes = self._touched.get(mask)
        if classes is None:
            classes = self._touched[mask] = [i for i, members in enumerate(self._class_masks) if members & mask]
        return classes

    def neighbours(self, mask: int) -> int:
        """Relations outside a subset that a predicate links with it."""
        neighbours = 0
        for i in bits(mask):
            neighbours |= self._neighbours[i]
        return neighbours & ~mask

    def is_connected(self, mask: int) -> bool:
        """True if predicates link all relations of a subset."""
        reached = waiting = mask & -mask
        while waiting:
            bit = waiting & -waiting
            added = self._neighbours[bit.bit_length() - 1] & mask & ~reached
            reached |= added
            waiting = waiting ^ bit | added
        return reached == mask

    def joined(self, probe: tuple[int, _Plan], build: tuple[int, _Plan], rows: float) -> _Plan:
        """Plan of a join of two planned subsets."""
        (probe_mask, left), (build_mask, right) = probe, build
        keys = self.key_pairs(probe_mask, build_mask, left.cost.carriers)
        if keys:
            cost = self.model.hashed(left.cost, right.cost, left.rows, right.rows, rows, keys)
        else:
            cost = self.model.nested(left.cost, right.cost, left.rows, right.rows, rows)
        return _Plan(cost, rows, probe_mask, build_mask)

    def leaf(self, i: int) -> _Plan:
        """Plan of one relation."""
        return _Plan(self.model.cost(self.leaves[i]), self._rows[i])

    def tree(self, mask: int, plans: dict[int, _Plan]) -> Node:
        """Logical join of a planned subset: probe side left, build side right."""
        plan = plans[mask]
        if not plan.probe:
            return self.leaves[mask.bit_length() - 1]
        left, right = self.tree(plan.probe, plans), self.tree(plan.build, plans)
        pairs = self.key_pairs(plan.probe, plan.build, plans[plan.probe].cost.carriers)
        parts: list[Expr] = [call("eq", pair.probe, pair.build) for pair in pairs]
        for needed, part, _ in self.others:
            if needed & mask == needed and needed & plan.probe != needed and needed & plan.build != needed:
                parts.append(part)
        condition = all_of(parts)
        joined = Join("cross" if condition is None else "inner", left, right, condition)
        # Estimated over the whole subset, which is no longer visible from the two inputs of one join.
        self.model.estimator.remember(joined, plan.rows)
        return joined


def bits(mask: int) -> list[int]:
    """Positions of a mask's ones, ascending."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def best_tree(graph: JoinGraph) -> Node:
    """Return the cheapest join tree found for all relations of the graph, every predicate applied."""
    if len(graph.leaves) <= EXHAUSTIVE:
        plans, parts = _exhaustive(graph)
    else:
        plans, parts = {1 << i: graph.leaf(i) for i in range(len(graph.leaves))}, _components(graph)
        parts = [_greedy(graph, plans, bits(part)) for part in parts]
    # Relations that no predicate links form a cross product, small ones first.
    while len(parts) > 1:
        parts.sort(key=lambda mask: plans[mask].rows, reverse=True)
        build, probe = parts.pop(), parts.pop()
        plans[probe | build] = graph.joined((probe, plans[probe]), (build, plans[build]), graph.rows(probe | build))
        parts.append(probe | build)
    return graph.tree(parts[0], plans)


def _components(graph: JoinGraph) -> list[int]:
    left, components = (1 << len(graph.leaves)) - 1, []
    while left:
        part = left & -left
        while grown := graph.neighbours(part):
            part |= grown
        components.append(part)
        left &= ~part
    return components


def _exhaustive(graph: JoinGraph) -> tuple[dict[int, _Plan], list[int]]:
    plans = {1 << i: graph.leaf(i) for i in range(len(graph.leaves))}
    near = {mask: graph.neighbours(mask) for mask in plans}
    for part in _components(graph):
        for mask in _subsets(part):
            if mask.bit_count() < 2 or not graph.is_connected(mask):
                continue
            best = _best_split(graph, plans, near, mask)
            if best is not None:
                plans[mask] = best
                near[mask] = graph.neighbours(mask)
    return plans, _components(graph)


def _subsets(mask: int) -> list[int]:
    subsets, sub = [], mask
    while sub:
        subsets.append(sub)
        sub = (sub - 1) & mask
    return subsets[::-1]


def _best_split(graph: JoinGraph, plans: dict[int, _Plan], near: dict[int, int], mask: int) -> _Plan | None:
    best: _Plan | None = None
    lowest, rows = mask & -mask, 0.0
    at_least = graph.model.hashed_at_least
    upper = mask ^ lowest
    rest = upper
    while rest:
        rest = (rest - 1) & upper
        sub = rest | lowest
        other = mask ^ sub
        if sub in plans and other in plans and near[sub] & other:
            rows = rows or graph.rows(mask)
            first, second = (sub, plans[sub]), (other, plans[other])
            is_keyed = graph.is_keyed(sub, other)
            for probe, build in ((first, second), (second, first)):
                left, right = probe[1], build[1]
                if is_keyed and best is not None:
                    # Most splits exceed the best cost already before their keys are inspected.
                    if at_least(left.cost, right.cost, right.rows, rows) >= best.cost.total:
                        continue
                candidate = graph.joined(probe, build, rows)
                if best is None or candidate.cost.total < best.cost.total:
                    best = candidate
    return best


def _greedy(graph: JoinGraph, plans: dict[int, _Plan], members: Sequence[int]) -> int:
    """Join the two parts whose join adds least, until one part is left. Each pair is costed once: its cost does not
    change while others are joined."""
    parts = [1 << i for i in members]
    pairs: dict[tuple[int, int], tuple[float, _Plan]] = {}

    def look(a: int, b: int) -> None:
        if graph.neighbours(a) & b:
            rows = graph.rows(a | b)
            for first, second in ((a, b), (b, a)):
                plan = graph.joined((first, plans[first]), (second, plans[second]), rows)
                added = plan.cost.total - plans[a].cost.total - plans[b].cost.total + rows
                pairs[first, second] = added, plan

    for place, a in enumerate(parts):
        for b in parts[place + 1 :]:
            look(a, b)
    while len(parts) > 1:
        assert pairs, "a component of the join graph is connected"
        order = {part: place for place, part in enumerate(parts)}
        a, b = min(pairs, key=lambda pair: (pairs[pair][0], order[pair[0]], order[pair[1]]))
        joined = a | b
        plans[joined] = pairs[a, b][1]
        pairs = {pair: found for pair, found in pairs.items() if not joined & (pair[0] | pair[1])}
        parts = [part for part in parts if part not in (a, b)]
        for other in parts:
            look(other, joined)
        parts.append(joined)
    return parts[0]
