"""Cost of a plan, in units of the time to touch one row of one column (some ten nanoseconds).

The cost of a subplan has two parts, because of runtime filters. `stream` is the work per row that flows up the probe
side; `fixed` is the rest: scanning encoded pages, building hash tables. A join above whose build side is small offers
its keys to the scan at the bottom of the probe side. From there on `stream` shrinks by the share of rows that have a
partner. `carriers` are the columns for which the scan takes such a filter. So the model favours a big table at the
bottom of a chain of probes, with the most selective build sides anywhere above it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model.lazy_dataclass import dataclass
from ...model.types import DataType
from ...sql.expressions import Column, Expr, conjuncts
from ..algebra.logical import Aggregate, Filter, Join, Limit, Node, Project, Scan, Shared, Sort, Window
from ..algebra.trees import as_equality, columns_in
from .cardinality import Estimator

CHECK = 0.15
"""Evaluating one predicate on one encoded value."""
READ = 0.6
"""Reading one value of a row that survived."""
BUILD = 6.0
"""Inserting one row into a hash table."""
PROBE = 3.0
"""Looking one row up."""
EMIT = 1.0
"""Producing one row of a join's output."""
GROUP = 4.0
"""Looking up one row's group and accumulating the row."""
PAIR = 0.3
"""Comparing one pair of rows in a nested loop."""
WORTH_FILTERING = 0.7
"""Share of rows above which an exact runtime filter is not worth checking."""
BLOOM = 1.8
"""Testing one hashed value against a Bloom filter."""
BLOOM_BUILD = 40.0
"""Inserting one build key into a Bloom filter, mostly the cost of removing duplicate keys."""
HASH_TEXT = 16.0
"""Hashing one text for a Bloom filter."""
LOOKUP_TEXT = 4.0
"""Looking up one text, beyond `PROBE`."""
ROWS_PER_ENTRY = 50
"""Rows per distinct text from which on a column counts as dictionary-encoded: only the dictionary is hashed and looked
up."""
MOST_TEXTS = 256
"""Distinct texts of a build side up to which a list is used, which is exact and costs no more than the join's
look-up."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a subplan in two parts; see the module's docstring."""

    fixed: float
    stream: float
    carriers: frozenset[int] = frozenset()

    @property
    def total(self) -> float:
        return self.fixed + self.stream


@dataclass(frozen=True, slots=True)
class KeyPair:
    """One equality of an equi-join, from the probe side's view."""

    probe: Expr
    build: Expr


class CostModel:
    """Costs of logical plans, with the choice between two ways to run a join."""

    def __init__(self, estimator: Estimator):
        self.estimator = estimator
        self._known: dict[int, tuple[Cost, bool]] = {}
        self.shares: dict[tuple[int, int, float], float] | None = None
        """Results of `filter_share` by two columns and a number of build rows, cached while the joins of one cluster
        are ordered: the columns' statistics do not change meanwhile."""

    def cost(self, node: Node) -> Cost:
        """Cost of the node and all below it."""
        return self._entry(node)[0]

    def swapped(self, join: Join) -> bool:
        """True if the left side of a semi, anti or left join should be the build side."""
        return self._entry(join)[1]

    def _entry(self, node: Node) -> tuple[Cost, bool]:
        known = self._known.get(node.number)
        if known is None:
            known = self._join(node) if isinstance(node, Join) else (self._cost(node), False)
            self._known[node.number] = known
        return known

    def _cost(self, node: Node) -> Cost:
        rows = self.estimator.rows(node)
        if isinstance(node, Scan):
            whole = float(self.estimator.table(node).row_count)
            # Bloom filters on other columns are too rare to be worth the time that comparing orders would take.
            carriers = frozenset(c.id for c in node.output if c.type.is_integer_like)
            return Cost(whole * CHECK * max(1, len(node.predicates)), rows * READ * (1 + len(node.output)), carriers)
        if isinstance(node, Filter):
            below = self.cost(node.source)
            return Cost(below.fixed, below.stream + self.estimator.rows(node.source) * READ, below.carriers)
        if isinstance(node, Project):
            below = self.cost(node.source)
            renamed = [c.id for c, e in node.items if isinstance(e, Column) and e.id in below.carriers]
            computed = sum(1 for _, e in node.items if not isinstance(e, Column))
            return Cost(below.fixed, below.stream + rows * READ * computed, frozenset(renamed))
        if isinstance(node, Aggregate):
            below = self.cost(node.source)
            groups = [c.id for c, e in node.common_groups if isinstance(e, Column) and e.id in below.carriers]
            work = self.estimator.rows(node.source) * GROUP * (1 + 0.3 * len(node.aggregates))
            return Cost(below.fixed, below.stream + work, frozenset(groups))
        if isinstance(node, (Sort, Limit, Window)):
            below = self.cost(node.source)
            extra = 0.0 if isinstance(node, Limit) else self.estimator.rows(node.source) * BUILD
            return Cost(below.total + extra, 0.0)
        if isinstance(node, Shared):
            return Cost(self.cost(node.source).total / 2, rows * READ)
        return Cost(sum(self.cost(child).total for child in node.children()), rows * READ)

    # ---- joins -------------------------------------------------------------------------------------------------

    def _join(self, join: Join) -> tuple[Cost, bool]:
        left, right = self.cost(join.left), self.cost(join.right)
        left_rows, right_rows = self.estimator.rows(join.left), self.estimator.rows(join.right)
        out = self.estimator.rows(join)
        keys = key_pairs(join)
        if not keys:
            return self.nested(left, right, left_rows, right_rows, out), False
        reduces = join.kind in ("inner", "semi")
        straight = self.hashed(left, right, left_rows, right_rows, out, keys if reduces else [])
        if join.kind not in ("semi", "anti", "left"):
            return straight, False
        mirrored = [KeyPair(pair.build, pair.probe) for pair in keys]
        turned = self.hashed(right, left, right_rows, left_rows, out, mirrored)
        # The output consists of build rows, so no filter from above reaches a scan any more.
        turned = Cost(turned.total, 0.0)
        return (turned, True) if turned.total < straight.total else (straight, False)

    def hashed(
        self, probe: Cost, build: Cost, probe_rows: float, build_rows: float, out: float, keys: Sequence[KeyPair]
    ) -> Cost:
        """Cost of a hash join; `keys` are those over which a runtime filter may reach the probe side."""
        share = 1.0
        for pair in keys:
            if _carried(pair.probe, probe):
                share = min(share, self.filter_share(pair, build_rows))
        if share > WORTH_FILTERING:
            share = 1.0
        fixed = probe.fixed + build.total + build_rows * BUILD
        # A build key equals its probe key, so a filter on it reaches the probe side's scan as well.
        equal = [p.build.id for p in keys if isinstance(p.build, Column) and _carried(p.probe, probe)]
        stream = (probe.stream + probe_rows * PROBE) * share + out * EMIT
        return Cost(fixed, stream, probe.carriers.union(equal))

    @staticmethod
    def hashed_at_least(probe: Cost, build: Cost, build_rows: float, out: float) -> float:
        """Lower bound of `hashed`, for any runtime filters."""
        return probe.fixed + build.total + build_rows * BUILD + out * EMIT

    def filter_share(self, pair: KeyPair, build_rows: float) -> float:
        """Share of the probe key's values that occur among `build_rows` build rows."""
        if self.shares is None or not isinstance(pair.probe, Column) or not isinstance(pair.build, Column):
            return self._filter_share(pair, build_rows)
        key = pair.probe.id, pair.build.id, build_rows
        found = self.shares.get(key)
        if found is None:
            found = self.shares[key] = self._filter_share(pair, build_rows)
        return found

    def _filter_share(self, pair: KeyPair, build_rows: float) -> float:
        present = self.estimator.distinct(pair.build, build_rows)
        met = self.estimator.keys_met(pair.build, pair.probe, build_rows)
        return min(1.0, present / max(1.0, met, self.estimator.domain(pair.probe)))

    def is_worth_filtering(self, pair: KeyPair, build_rows: float, probe_rows: float, columns: int) -> bool:
        """True if the build side's keys should filter a scan that otherwise yields `probe_rows` rows of `columns`
        columns."""
        if has_exact_filter(pair.probe.type) != has_exact_filter(pair.build.type):
            return False
        if has_exact_filter(pair.probe.type):
            return self.filter_share(pair, build_rows) <= WORTH_FILTERING
        keys = self.estimator.distinct(pair.build, build_rows)
        if pair.probe.type.is_text and keys <= MOST_TEXTS:
            return self.filter_share(pair, build_rows) <= WORTH_FILTERING
        return keys <= self.bloom_keys(pair.probe, probe_rows, columns)

    def bloom_keys(self, probe: Expr, rows: float, columns: int) -> int:
        """Number of distinct build keys up to which a Bloom filter saves more than it costs.

        Each of the scan's `rows` is tested; the share without a partner is neither read nor looked up:

                rows * (1 - keys / domain) * saved  >  rows * tested + keys * BLOOM_BUILD
        """
        rows, domain = max(1.0, rows), max(1.0, self.estimator.domain(probe))
        saved, tested = PROBE + READ * columns, BLOOM
        if probe.type.is_text and domain * ROWS_PER_ENTRY > rows:
            saved, tested = saved + LOOKUP_TEXT, tested + HASH_TEXT
        return max(0, int(rows * (saved - tested) / (BLOOM_BUILD + rows * saved / domain)))

    def nested(self, left: Cost, right: Cost, left_rows: float, right_rows: float, out: float) -> Cost:
        """Cost of a nested loop over all pairs."""
        return Cost(
            left.fixed + right.total, left.stream + left_rows * max(1.0, right_rows) * PAIR + out * EMIT, left.carriers
        )


def has_exact_filter(type_: DataType) -> bool:
    """True if the type's physical values are integers of at most 64 bits, which fit a bitmap or a range."""
    return type_.is_integer_like and (not type_.is_decimal or (type_.precision or 0) <= 18)


def _carried(key: Expr, side: Cost) -> bool:
    return isinstance(key, Column) and key.id in side.carriers


def key_pairs(join: Join) -> list[KeyPair]:
    """Equalities of a join's condition that link its two sides, with the left side as the probe side."""
    left = {column.id for column in join.left.columns}
    right = {column.id for column in join.right.columns}
    found: list[KeyPair] = []
    for part in conjuncts(join.condition):
        sides = as_equality(part)
        if sides is None:
            continue
        first, second = columns_in(sides[0]), columns_in(sides[1])
        if first and second and first <= left and second <= right:
            found.append(KeyPair(sides[0], sides[1]))
        elif first and second and first <= right and second <= left:
            found.append(KeyPair(sides[1], sides[0]))
    return found
