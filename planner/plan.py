"""Planning of a bound query: logical build, rules, physical planning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ..errors import ProgrammingError, did_you_mean
from ..sql.bound import Query
from ..sql.deep_stack import deeply, on_deep_stack
from .algebra.depth import is_deep
from .algebra.invariants import check_plan
from .algebra.logical import Node, Shared
from .algebra.trees import nodes, rewrite_nodes
from .context import Context
from .estimates.cardinality import Estimator
from .estimates.statistics import StatisticsSource
from .logical_builder import Builder, numbers_above
from .physical.merge_joins import MODES
from .physical.physical_planner import PhysicalPlanner
from .physical.shared_build_sides import share_small_builds
from .query_plan import Plan, PlannerOptions
from .rules import RULE_NAMES, RULES, Rule
from .rules.filter_shared import filtered_for
from .rules.prune_columns import narrow_uses, prune_shared


def plan_query(
    query: Query,
    store: StatisticsSource,
    options: PlannerOptions | None = None,
    check: Callable[[], None] = lambda: None,
) -> Plan:
    """Plan a bound query with a store's statistics. `check` is called between the steps; its exceptions end the
    planning.

    Raises `NotSupportedError` for the few correlated subqueries that cannot become joins, and `ProgrammingError` if a
    name in `options.disabled_rules` is not a rule's.
    """
    options = options or PlannerOptions()
    if options.merge_joins not in MODES:
        raise ProgrammingError(f"merge_joins is {', '.join(MODES[:-1])} or {MODES[-1]}, not {options.merge_joins}")
    wrong = sorted(options.disabled_rules - set(RULE_NAMES))
    if wrong:
        raise ProgrammingError(f"there is no rule {wrong[0]}{did_you_mean(wrong[0], RULE_NAMES)}")

    def planned() -> Plan:
        return _planned(query, Context(Estimator(store), numbers_above(query), options, check))

    return on_deep_stack(planned) if is_deep(query) else deeply(planned)


def _planned(query: Query, context: Context) -> Plan:
    options = context.options
    pipeline = Pipeline(Builder(context).query(query), context)
    for rule in RULES:
        if rule.mandatory or rule.name not in options.disabled_rules:
            pipeline.apply(rule)
    root = PhysicalPlanner(context).plan(pipeline.root)
    if "share_common_subplans" not in options.disabled_rules:
        root = share_small_builds(root, context)
    return Plan(root, query.columns, pipeline.root, tuple(pipeline.trace), deep=is_deep(root))


class Pipeline:
    """The main plan and its shared subplans while the rules are applied.

    Rules treat shared subplans as leaves. Each subplan is rewritten separately, once for all its uses.
    """

    def __init__(self, root: Node, context: Context):
        self.root = root
        self.trace: list[tuple[str, Node]] = []
        self._context = context
        self._shared: dict[int, Node] = {}
        self._collect([root])
        self._note("build", None)

    def apply(self, rule: Rule) -> None:
        """Apply one rule to the main plan and all shared subplans."""
        self._context.check()
        before = self.root
        if rule.name == "prune_columns" and self._shared:
            self._prune(rule)
        elif rule.name == "filter_shared":
            self._filter(rule)
        else:
            self._apply_everywhere(rule)
        if self._shared:
            self._relink()
        self._note(rule.name, before)

    def _apply_everywhere(self, rule: Rule) -> None:
        before = self.root
        self.root = rule.apply(self.root, self._context)
        if self.root is not before:
            self._collect([self.root])
        done: set[int] = set()
        while waiting := sorted(self._shared.keys() - done):
            for key in waiting:
                self._shared[key] = rule.apply(self._shared[key], self._context)
                # Subqueries that become joins may contribute shared subplans.
                self._collect([self._shared[key]])
            done.update(waiting)

    def _collect(self, roots: Iterable[Node]) -> None:
        for root in roots:
            for node in nodes(root):
                if isinstance(node, Shared) and node.key not in self._shared:
                    self._shared[node.key] = node.source
                    self._collect([node.source])

    def _prune(self, rule: Rule) -> None:
        """Prune from the top: the columns that a shared subplan must produce are known once its users are pruned."""
        used = self._context.used
        used.clear()
        repeated = self._context.repeated
        repeated.clear()
        self.root = rule.apply(self.root, self._context)
        for key in self._users_first():
            places = used.setdefault(key, set())
            self._shared[key] = prune_shared(self._shared[key], places, key not in repeated, self._context)
        self.root = narrow_uses(self.root, used)
        self._shared = {key: narrow_uses(plan, used) for key, plan in self._shared.items()}

    def _filter(self, rule: Rule) -> None:
        """Filter from the top: the rows that a shared subplan must produce are known once its users are filtered."""
        conditions = self._context.use_conditions
        conditions.clear()
        self.root = rule.apply(self.root, self._context)
        for key in self._users_first():
            self._shared[key] = filtered_for(self._shared[key], conditions.get(key, [()]), self._context)
            rule.apply(self._shared[key], self._context)

    def _users_first(self) -> Iterator[int]:
        """Yield the keys of the shared subplans, each after all subplans that use it."""
        waiting = dict(self._shared)
        while waiting:
            inner = {n.key for plan in waiting.values() for n in nodes(plan) if isinstance(n, Shared)}
            for key in [key for key in waiting if key not in inner]:
                del waiting[key]
                yield key

    def _relink(self) -> None:
        """Update every use of a shared subplan to its current form; drop the subplans without a use."""
        done: dict[int, Node] = {}

        def linked(node: Node) -> Node:
            if not isinstance(node, Shared):
                return node
            if node.key not in done:
                done[node.key] = rewrite_nodes(self._shared[node.key], linked)
            return node if node.source is done[node.key] else replace(node, source=done[node.key])

        self.root = rewrite_nodes(self.root, linked)
        self._shared = done
        self._context.uses = Counter(
            node.key for plan in (self.root, *done.values()) for node in nodes(plan) if isinstance(node, Shared)
        )

    def _note(self, name: str, before: Node | None) -> None:
        if before is self.root:
            return
        if self._context.options.check:
            check_plan(self.root, name)
        if self._context.options.trace and self.root != before:
            self.trace.append((name, self.root))
