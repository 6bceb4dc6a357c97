"""Collection of partials until they are merged: in memory while they fit, then in temporary files.

    partial ──┬── there is room ───────► kept, by grouping set and tablet
              └── there is none ───────► partials of the largest set are merged ──┬── half is gone: kept
                                                                                  └── else: spilled, with the coarser
                                                                                      sets that are computed from it

Merging alone is often enough, because many batches have the same groups. Partials that merging does not make small are
written in merged form, so they are not merged repeatedly. A grouping set that spills is finished heap by heap
(`spilled_groups`), and no heap holds all groups that a coarser set needs. So the coarser sets are computed when data is
written; each is kept and, if need be, spilled like a separate set.

Tablets whose groups are never equal are merged separately, but share the files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from ...model.lazy_dataclass import dataclass
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..spilling.heaps import HeapWork
from .partials import Partial, States
from .spilled_groups import SpilledGroups

GroupingSet: TypeAlias = tuple[int, ...]
"""Positions among a node's groups, ascending."""

MERGING: Final = 2
"""Factor by which partials are charged, because the result of merging them is in memory at the same time."""


@dataclass(slots=True)
class _Kept:
    order: int
    tag: str | None
    partial: Partial


@dataclass(slots=True)
class _Set:
    """One grouping set."""

    by: GroupingSet
    kept: list[_Kept] = field(default_factory=list)
    size: int = 0
    """Bytes that the account holds for it."""
    spilled: SpilledGroups | None = None

    def by_tag(self) -> dict[str | None, list[Partial]]:
        return _by_tag(self.kept)


class PartialCollector:
    """The partials of one aggregation. Threads may add concurrently.

    Parameters
    ----------
    states : States
    sets : sequence of GroupingSet
        All sets, each once; rows are aggregated into some of them.
    context : ExecutionContext
    what : str
        Names the operator in errors.
    """

    def __init__(self, states: States, sets: Sequence[GroupingSet], context: ExecutionContext, what: str):
        self.account: Account = context.account(what)
        self.work = HeapWork(context, self.account)
        self._states = states
        self._context = context
        self._sets = {by: _Set(by) for by in sets}
        self._coarser = _coarser(sets)
        self._lock = threading.Lock()
        """Guards the sets' lists: held briefly."""
        self._relieving = threading.RLock()
        """Held by the thread that merges and spills; the others wait for it, but never for a thread that produces
        rows."""

    def add(self, by: GroupingSet, partial: Partial, order: int = -1, tag: str | None = None) -> None:
        """Keep a partial of a set, or spill. `order` is its position among the others, `tag` its tablet if groups of
        different tablets are never equal."""
        size = MERGING * self._states.size(partial)
        chosen = self._sets[by]
        while not self.account.grow(size):
            with self._relieving:
                if self.account.grow(size):
                    break
                if not self._relieve():
                    self._spill(chosen, [partial])
                    return
        with self._lock:
            chosen.kept.append(_Kept(order, tag, partial))
            chosen.size += size

    def combine(self, by: GroupingSet, order: int) -> None:
        """Merge the partials of a set that were added with `order`, in the calling thread."""
        chosen = self._sets[by]
        with self._lock:
            own = [kept for kept in chosen.kept if kept.order == order]
            if len(own) < 2:
                return
            chosen.kept = [kept for kept in chosen.kept if kept.order != order]
            # Until they are merged, no thread that spills has them: the account holds their bytes for this one.
            before = MERGING * sum(self._states.size(kept.partial) for kept in own)
            chosen.size -= before
        merged = self._states.merge([kept.partial for kept in own])
        after = min(before, MERGING * self._states.size(merged))
        with self._lock:
            chosen.kept.append(_Kept(order, own[0].tag, merged))
            chosen.size += after
        self.account.shrink(before - after)

    @property
    def is_empty(self) -> bool:
        """True if nothing was added so far."""
        return not any(each.kept or each.spilled is not None for each in self._sets.values())

    def _relieve(self) -> bool:
        """Reduce the memory in use; False if nothing is kept."""
        with self._lock:
            largest = max(self._sets.values(), key=lambda each: each.size)
            kept, size = largest.kept, largest.size
            largest.kept, largest.size = [], 0
        if not kept:
            return False
        self._context.check()
        merged = {tag: self._states.merge(partials) for tag, partials in _by_tag(kept).items()}
        left = MERGING * sum(map(self._states.size, merged.values()))
        if 2 * left <= size and len(merged) < len(kept):
            with self._lock:
                largest.kept += [_Kept(-1, tag, partial) for tag, partial in merged.items()]
                largest.size += left
            self.account.shrink(size - left)
        else:
            self._spill(largest, merged.values(), size)
        return True

    def _spill(self, chosen: _Set, partials: Iterable[Partial], size: int = 0) -> None:
        """Write partials, for which the account holds `size` bytes, and compute the coarser sets from them."""
        if chosen.spilled is None:
            chosen.spilled = SpilledGroups(self._states, len(chosen.by), self.work)
        for partial in partials:
            self._context.check()
            chosen.spilled.add(partial)
        self.account.shrink(size)
        for by in self._coarser.get(chosen.by, ()):
            places = [chosen.by.index(position) for position in by]
            self.add(by, self._states.coarsen(list(partials), places))

    # ---- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> dict[GroupingSet, SpilledGroups]:
        """End the collection; return the sets that were spilled, now whole. The others can be
        taken (`take`)."""
        while rest := [each for each in self._sets.values() if each.spilled is not None and each.kept]:
            chosen = max(rest, key=lambda each: len(each.by))
            kept, size = chosen.by_tag(), chosen.size
            chosen.kept, chosen.size = [], 0
            self._spill(chosen, [self._states.merge(partials) for partials in kept.values()], size)
        return {by: chosen.spilled for by, chosen in self._sets.items() if chosen.spilled is not None}

    def take(self, by: GroupingSet) -> dict[str | None, list[Partial]]:
        """Remove and return the partials of a set that was not spilled, by tag, in order. The account holds their
        memory until `hold_merged`."""
        chosen = self._sets[by]
        by_tag, chosen.kept = chosen.by_tag(), []
        return by_tag

    def hold_merged(self, by: GroupingSet, size: int) -> None:
        """Hold `size` bytes for the merged form of a set's partials in their place."""
        chosen = self._sets[by]
        self.account.shrink(chosen.size - size)
        chosen.size = size


def roots_of(sets: Sequence[GroupingSet]) -> list[GroupingSet]:
    """Return the sets that no other set contains."""
    distinct = dict.fromkeys(sets)
    return [by for by in distinct if not any(set(by) < set(other) for other in distinct)]


def _coarser(sets: Sequence[GroupingSet]) -> dict[GroupingSet, list[GroupingSet]]:
    """Assign to each root the sets that are computed from it; every other set has one root."""
    roots = roots_of(sets)
    coarser: dict[GroupingSet, list[GroupingSet]] = {root: [] for root in roots}
    for by in dict.fromkeys(sets):
        if by not in coarser:
            coarser[next(root for root in roots if set(by) < set(root))].append(by)
    return coarser


def _by_tag(kept: Iterable[_Kept]) -> dict[str | None, list[Partial]]:
    by_tag: dict[str | None, list[Partial]] = {}
    for each in sorted(kept, key=lambda each: each.order):
        by_tag.setdefault(each.tag, []).append(each.partial)
    return by_tag
