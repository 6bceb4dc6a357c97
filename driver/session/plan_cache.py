"""Cache of bound and planned statements, looked up by their text and run with new values.

    text ──► Prepared, ...        one per way in which its values led to a bound statement (`sql.deferred_parameters`)
             │
             ├── SingleRow        a statement on one row: executed by the store without a plan
             └── PlanTemplate     any other: the values are put into the plan

Entries are valid for one version of the catalog and one search path; every DDL statement, of any connection, makes
another version. A statement is also planned again when row counts of its tables have changed by more than a factor.
Statements that depend on the time of execution (FOR SYSTEM_TIME, files) or on a value (a path, a number of digits) are
never cached; the cache records this, so that they are not tried again.

A statement is reused for other values only if, with the current values inserted, it equals the statement that was bound
with these values. This is checked once, when it is cached.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...errors import Error
from ...executor.statements.single_rows import SingleRow, single_row
from ...model.access.roles import Access
from ...model.clock import wall_time
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Store, Timestamp
from ...model.types import TIMESTAMP
from ...planner import Plan
from ...sql import ParsedStatement, bound
from ...sql.binding.binder import Binding, DeferredStatement, bind_deferred
from ...sql.deferred_parameters import NOW, DeferredParameter, DeferredValues, Key, Path
from ...sql.expressions import Literal
from ...sql.literals import from_python
from ...sql.placeholders import Given
from ...sql.session_facts import UNKNOWN_SESSION, SessionFacts
from .bind_values import Normalized
from .parameter_fast_path import Taker, Unfit, cell_takers, value_takers
from .running_work import PastRuns

if TYPE_CHECKING:
    from ...planner import PlanTemplate

Version: TypeAlias = tuple[int, tuple[str, ...]]
"""Inputs of the resolution of names: the version of the catalog, and the search path."""
Literals: TypeAlias = Mapping[tuple[Key, Path], Literal]

MOST_TEXTS = 1000
MOST_CHARACTERS = 1 << 22
LONGEST_TEXT = 1 << 16
"""Longer texts are generated from data, and are not repeated."""
MOST_PARAMETERS = 1 << 14
"""Of one statement, and of all that are kept together: each costs 1.5 to 3 kB."""
FEW_PARAMETERS = 200
"""A statement of more is prepared when its text comes a second time: preparing costs twice as much as running it once,
and a list of values that a program made seldom has the same length again."""
MOST_VARIANTS = 8
"""Of one text: more types of values than that do not alternate."""
STATISTICS_SECONDS = 1.0
"""Interval, in seconds, at which the sizes of a plan's tables are checked."""
GROWTH = 2
SMALL_TABLE = 1000
"""Rows; between tables that are smaller there is nothing to choose."""


@dataclass(slots=True)
class Prepared:
    """A statement that is ready to run.

    Attributes
    ----------
    statement : bound.Statement
        With placeholders.
    single : SingleRow, optional
        Its row path; then it has no template.
    template : PlanTemplate, optional
    takers : tuple of Taker, optional
        Converters of plain values to the cells of `single`, or to the physical values of the template's parameters.
    past : PastRuns
        State that is kept between executions.
    """

    statement: bound.Statement
    keys: tuple[Key, ...]
    values: DeferredValues
    single: SingleRow | None
    template: PlanTemplate | None
    takers: tuple[Taker, ...] | None
    scans: int = 0
    """Number of tables that the plan reads."""
    sizes: tuple[tuple[Table, int], ...] = ()
    looked: float = field(default_factory=time.monotonic)
    past: PastRuns = field(default_factory=PastRuns)

    def cells(self, parameters: Normalized | None, store: Store) -> Sequence[Any] | None:
        """The Python values of `single`; None where the parameters are not for this statement."""
        if self.takers is not None:
            given = parameters or ()
            if len(given) == len(self.keys):
                try:
                    return [take(given) for take in self.takers]
                except (Unfit, KeyError, TypeError):
                    pass
        literals = self.literals(parameters, store.now())
        if literals is None or self.single is None:
            return None
        return [_python(literals[v.key, v.path] if isinstance(v, DeferredParameter) else v) for v in self.single.values]

    def literals(self, parameters: Normalized | None, now: Timestamp) -> Literals | None:
        """The values in all their conversions; None where the parameters are not for this statement."""
        given = parameters or ()
        if len(given) != len(self.keys):
            return None
        try:
            by_key: dict[Key, Literal] = {key: from_python(given[key]) for key in self.keys}  # type: ignore[index]
        except (Error, KeyError, TypeError):
            return None
        by_key[NOW] = Literal(TIMESTAMP, False, wall_time(now))
        return self.values.of(by_key)

    def plan(self, parameters: Normalized | None, store: Store) -> Plan | None:
        """The plan with the values in it; None where the parameters are not for this statement."""
        assert self.template is not None
        given = parameters or ()
        if self.takers is not None and len(given) == len(self.keys):
            try:
                return self.template.bind([take(given) for take in self.takers])
            except (Unfit, KeyError, TypeError):
                pass
        literals = self.literals(parameters, store.now())
        if literals is None:
            return None
        return self.template.bind([literals[p.key, p.path].value for p in self.template.parameters])  # type: ignore[attr-defined]

    def is_outgrown(self, store: Store) -> bool:
        """True if a table's row count changed by more than `GROWTH` since planning."""
        if not self.sizes or (now := time.monotonic()) - self.looked < STATISTICS_SECONDS:
            return False
        self.looked = now
        for table, before in self.sizes:
            rows = store.statistics(table).row_count
            low, high = sorted((max(rows, SMALL_TABLE), max(before, SMALL_TABLE)))
            if high > GROWTH * low:
                return True
        return False


@dataclass(slots=True)
class _Entry:
    """One text: what its names depend on, the variants; none where the statement cannot be kept."""

    version: Version
    variants: tuple[Prepared, ...]

    @property
    def parameters(self) -> int:
        """The number of parameters of all variants."""
        return sum(len(variant.keys) for variant in self.variants)


class PlanCache:
    """The prepared statements of one session, the least recently used forgotten first. Threads may share it.

    Attributes
    ----------
    store : Store
        That of the session's statements: a transaction while one is open, which may have a catalog of its own.
    path : tuple of str
        The session's search path.
    """

    def __init__(self, store: Store):
        self.store = store
        self.path: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._characters = 0
        self._parameters = 0
        self._seen: OrderedDict[int, None] = OrderedDict()
        """The hashes of texts that are prepared when they come again."""
        self.enabled = True
        """Tests turn it off to have every statement bound with its values."""
        self.short_ways = True
        """Tests turn it off to have every statement planned."""
        self.guards = False
        """True if statements have the rights of a user: plans are for one state of users and grants, too."""
        self._access: Access | None = None

    def renewed(self, guards: bool) -> PlanCache:
        """An empty cache of the same store, for statements that act as another role."""
        cache = PlanCache(self.store)
        cache.enabled, cache.short_ways, cache.guards = self.enabled, self.short_ways, guards
        cache.path = self.path
        return cache

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, text: str) -> tuple[Prepared, ...] | None:
        """The variants of a text, none of them for a statement that cannot be kept; None where it is not known."""
        if self.guards:
            self._forget_if_rights_changed()
        entry = self._entries.get(text)
        if entry is None or not self.enabled:
            return None
        if entry.version != (self.store.catalog_version, self.path):
            return None
        # One call into C, which the interpreter lock makes whole; a text that was forgotten just now stays so.
        try:  # noqa: SIM105
            self._entries.move_to_end(text)
        except KeyError:
            pass
        return entry.variants

    @property
    def version(self) -> Version:
        """Of statements that are bound from now on."""
        return self.store.catalog_version, self.path

    def _forget_if_rights_changed(self) -> None:
        # The catalog's version says the same, but not in a transaction, whose catalog is that of its BEGIN.
        access = self.store.access
        if access is not self._access:
            with self._lock:
                for text in list(self._entries):
                    self._forget(text)
                self._access = access

    def takes(self, text: str, parameters: int) -> bool:
        """True if a statement with this number of parameters is worth preparing."""
        if not self.enabled or len(text) > LONGEST_TEXT or parameters > MOST_PARAMETERS:
            return False
        return parameters <= FEW_PARAMETERS or self.comes_again(text)

    def comes_again(self, text: str) -> bool:
        """True if the text was the argument of an earlier call, with fewer than `MOST_TEXTS` others since."""
        key = hash(text)
        with self._lock:
            known = key in self._seen
            self._seen[key] = None
            self._seen.move_to_end(key)
            if len(self._seen) > MOST_TEXTS:
                self._seen.popitem(last=False)
        return known

    def add(self, text: str, version: Version, prepared: Prepared | None) -> None:
        """Keep a variant, bound at a version; None: the statement cannot be kept."""
        with self._lock:
            entry = self._forget(text)
            known = () if entry is None or entry.version != version else entry.variants
            added = () if prepared is None else (prepared,)
            self._entries[text] = kept = _Entry(version, _newest((*added, *known)))
            self._characters += len(text)
            self._parameters += kept.parameters
            while self._is_full() and len(self._entries) > 1:
                self._forget(next(iter(self._entries)))

    def remove(self, text: str, prepared: Prepared) -> None:
        """Forget one variant."""
        with self._lock:
            entry = self._entries.get(text)
            if entry is None:
                return
            before = entry.parameters
            entry.variants = tuple(other for other in entry.variants if other is not prepared)
            self._parameters += entry.parameters - before
            if not entry.variants:
                self._forget(text)

    def _is_full(self) -> bool:
        return (
            len(self._entries) > MOST_TEXTS or self._characters > MOST_CHARACTERS or self._parameters > MOST_PARAMETERS
        )

    def _forget(self, text: str) -> _Entry | None:
        """Take a text out of the cache."""
        entry = self._entries.pop(text, None)
        if entry is not None:
            self._characters -= len(text)
            self._parameters -= entry.parameters
        return entry


def _newest(variants: tuple[Prepared, ...]) -> tuple[Prepared, ...]:
    """The variants of one text that are kept, of those in order from the newest."""
    most = MOST_PARAMETERS // max(1, len(variants[0].keys)) if variants else 0
    return variants[: max(1, min(MOST_VARIANTS, most))]


def prepare(
    parsed: ParsedStatement,
    given: Given,
    binding: Binding,
    store: Store,
    now: Timestamp,
    planned: Callable[[bound.Query], Plan],
    short_ways: bool = True,
    session: SessionFacts = UNKNOWN_SESSION,
) -> Prepared | None:
    """The statement for other values too; None where it cannot be kept.

    `binding` is the statement as it was bound with the values of `given`, at the time `now`.
    """
    known = binding.statement
    if not isinstance(known, KEPT):
        return None
    if binding.is_lasting and not given.literals:
        statement, values = known, DeferredValues({}, (), frozenset())
    else:
        late = _bind(parsed, store, given, now, session)
        if late is None:
            return None
        from ...planner.prepared.deferred_statements import deferred_parameters, same_with_values

        statement = late.statement
        uses = list(deferred_parameters(statement))
        if any(deferred_parameters(getattr(statement, "returning", None))):
            return None
        samples = {**given.literals, NOW: late.now}
        values = DeferredValues(samples, late.decisions, _settled(uses, given))
        literals = values.of(samples)
        if literals is None or not same_with_values(known, statement, literals):
            return None
    keys = tuple(given.literals)
    single = single_row(statement) if short_ways else None
    if single is not None:
        return Prepared(statement, keys, values, single, None, cell_takers(single, values, keys))
    from ...planner import PlanTemplate
    from ...planner.algebra.physical import TableScan, nodes

    plan = planned(statement.query)
    if plan.deep:
        return None  # what puts values into it recurses, too
    scans = [node.table for node in nodes(plan.root) if isinstance(node, TableScan)]
    sizes = tuple((table, store.statistics(table).row_count) for table in set(scans))
    template = PlanTemplate(plan)
    takers = value_takers(template.parameters, values, keys)
    return Prepared(statement, keys, values, None, template, takers, len(scans), sizes)


KEPT: Final = bound.SelectStatement | bound.InsertStatement | bound.ChangeStatement | bound.MergeStatement


def _bind(
    parsed: ParsedStatement, store: Store, given: Given, now: Timestamp, session: SessionFacts
) -> DeferredStatement | None:
    try:
        return bind_deferred(parsed, store, given, now, session)
    except Error:
        return None  # a value must be known here: with it, the statement was bound


def _settled(uses: Sequence[DeferredParameter], given: Given) -> frozenset[Key]:
    """The parameters all of whose uses are settled, and of which no use was folded away."""
    counts = Counter(use.key for use in uses)
    wanted = Counter(given.places.values())
    loose = {use.key for use in uses if not use.settled}
    return frozenset(key for key in wanted if counts[key] >= wanted[key] and key not in loose)


def _python(literal: Literal) -> Any:
    return literal.type.to_python(literal.value)
