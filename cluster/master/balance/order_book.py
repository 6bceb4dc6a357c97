"""Due orders: each is sent until it is no longer needed, with growing pauses after failures."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from ....model.lazy_dataclass import dataclass
from .orders import Order, OrderKey

FIRST_PAUSE, LAST_PAUSE = 0.2, 15.0
"""Seconds until a failed order is sent again; each further failure doubles them."""
REPORT_PAUSE = 1.0
"""Seconds within which reports must show that an order was executed."""
PER_SERVER = 4
"""Most orders in progress at one server: an unresponsive server does not delay others."""


@dataclass(slots=True)
class _Given:
    order: Order
    failures: int = 0
    due: float = 0.0
    is_on_its_way: bool = False


class OrderBook:
    """Orders by their keys. Not thread-safe: the coordinator's lock guards it. Times are monotonic."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self._given: dict[OrderKey, _Given] = {}
        self._on_their_way: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._given)

    def take_due(self, orders: Iterable[Order], now: float) -> list[Order]:
        """Returns, of all orders that are needed now, those to send now, and marks them as sent. Other orders are
        dropped."""
        needed: dict[OrderKey, Order] = {}
        for order in orders:
            needed.setdefault(order.key, order)
        for key in [k for k, given in self._given.items() if k not in needed and not given.is_on_its_way]:
            del self._given[key]
        return [order for key, order in needed.items() if self._is_due(key, order, now)]

    def _is_due(self, key: OrderKey, order: Order, now: float) -> bool:
        given = self._given.get(key)
        if given is not None and given.is_on_its_way:
            return False
        if given is None or type(given.order) is not type(order):
            # Another step of the same work: the pauses belonged to the previous one.
            given = self._given[key] = _Given(order)
        if now < given.due or self._on_their_way[order.server] >= PER_SERVER:
            return False
        given.order = order
        given.is_on_its_way = True
        self._on_their_way[order.server] += 1
        return True

    def carried_out(self, order: Order, now: float) -> int:
        """Records success: resets the failures."""
        given = self._ended(order)
        given.failures = 0
        given.due = now + REPORT_PAUSE
        return 0

    def failed(self, order: Order, now: float) -> int:
        """Records a failure; returns the number of consecutive ones."""
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
