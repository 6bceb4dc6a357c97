"""Which orders are due: each is given until it is not wanted any more, with growing pauses after failures."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .orders import Order, OrderKey

FIRST_PAUSE, LAST_PAUSE = 0.2, 15.0
"""Seconds until an order that failed is given again; each further failure doubles them."""
REPORT_PAUSE = 1.0
"""Seconds that reports have to show that an order was carried out."""
PER_SERVER = 4
"""Orders on their way to one server: one that does not answer holds up no other."""


@dataclass(slots=True)
class _Given:
    order: Order
    failures: int = 0
    due: float = 0.0
    is_on_its_way: bool = False


class OrderBook:
    """Orders by their keys. Not safe for several threads: the coordinator's lock guards it. Times are monotonic."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self._given: dict[OrderKey, _Given] = {}
        self._on_their_way: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._given)

    def take(self, orders: Iterable[Order], now: float) -> list[Order]:
        """Of all orders that are wanted now: those to give now, as given. Others than these are forgotten."""
        wanted: dict[OrderKey, Order] = {}
        for order in orders:
            wanted.setdefault(order.key, order)
        for key in [k for k, given in self._given.items() if k not in wanted and not given.is_on_its_way]:
            del self._given[key]
        return [order for key, order in wanted.items() if self._is_due(key, order, now)]

    def _is_due(self, key: OrderKey, order: Order, now: float) -> bool:
        given = self._given.get(key)
        if given is not None and given.is_on_its_way:
            return False
        if given is None or type(given.order) is not type(order):
            # Another step of the same work: the pauses were for the one before.
            given = self._given[key] = _Given(order)
        if now < given.due or self._on_their_way[order.server] >= PER_SERVER:
            return False
        given.order = order
        given.is_on_its_way = True
        self._on_their_way[order.server] += 1
        return True

    def carried_out(self, order: Order, now: float) -> int:
        """The server says that it is done: no failures any more."""
        given = self._ended(order)
        given.failures = 0
        given.due = now + REPORT_PAUSE
        return 0

    def failed(self, order: Order, now: float) -> int:
        """It was not; how often now, in a row."""
        given = self._ended(order)
        pause = min(LAST_PAUSE, FIRST_PAUSE * 2 ** min(given.failures, 20))
        given.failures += 1
        given.due = now + pause * self._rng.uniform(0.75, 1.25)
        return given.failures

    def _ended(self, order: Order) -> _Given:
        given = self._given[order.key]
        given.is_on_its_way = False
        self._on_their_way[order.server] -= 1
        return given
