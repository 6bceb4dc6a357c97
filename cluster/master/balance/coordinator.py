"""The cluster coordinator: a thread that brings the cluster to the state of the catalog, round by round.

    every half second, and at once after a change:
      1. load, if this master has begun to lead
      2. record what reports have shown                (`catalog.catalog_changes.settled`)
      3. replace tablets that could not be created     (`catalog.catalog_changes.replaced`)
      4. view, decide, send orders                     (`balance.cluster_view`, `balance.repair.decide`,
         `balance.order_book`)

Every step may be repeated or interrupted anywhere: the next round, of this master or another, continues from there.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable
from functools import partial

from ....errors import Error, NotTheLeader
from ...wire.calls.rpc import Channel, Channels
from ...wire.messages.methods import ConfigurationReply, Reply, ReportTablets, TabletReports
from ..catalog.catalog_changes import forgotten_calls, settled
from ..catalog.catalog_manager import CatalogManager
from ..catalog.ddl import Ddl
from ..catalog.records import TableRecord
from ..options import MasterOptions
from ..threads import Callers
from .cluster_view import ClusterView, Surplus, view_cluster
from .order_book import OrderBook
from .orders import AddReplica, AlterReplicas, AskReport, CreateReplica, Order, RemoveReplica, request_of
from .repair import Limits, decide, is_braked

ROUND_SECONDS = 0.5
LEAST_SECONDS = 0.02
"""Seconds between the beginnings of two rounds."""
_WRITE_SECONDS = 10.0
_ORDER_SECONDS = 10.0
_SLOW_ORDER_SECONDS = 60.0
"""Timeout of orders that write files."""
_THREADS = 16
_PAUSE_SECONDS = 10.0
"""Seconds of delay from which a round shows that the process was paused."""
_KEEP_CALLS_SECONDS = 3600.0
_HOUSEKEEPING_SECONDS = 60.0
_log = logging.getLogger("nyala.cluster.master")


class Coordinator:
    """The cluster coordinator; see the module's page.

    Parameters
    ----------
    channels : Channels
        To the tablet servers.
    """

    def __init__(
        self, manager: CatalogManager, ddl: Ddl, channels: Channels, options: MasterOptions, rng: random.Random
    ):
        self._manager = manager
        self._ddl = ddl
        self._channels = channels
        self._options = options
        self._rng = rng
        self._lock = threading.Lock()
        """Guards `_book` and `_surplus`; acquired before `CatalogManager.changed`."""
        self._book = OrderBook(rng)
        self._surplus = Surplus(options.surplus_grace)
        self._creating: dict[str, float] = {}
        """Times since which tablets wait for their first leader."""
        self._seen: object = None
        """The state in which the last round found nothing to do."""
        self._wrote = 0.0
        self._kept_house = 0.0
        self._last_round = manager.monotonic()
        self.is_braked = False
        """True while so large a share of replicas is bad that none is replaced (`balance.repair.Limits`)."""
        self._stopped = False
        self._callers = Callers("master-order", _THREADS)
        self._thread = threading.Thread(target=self._run, name="nyala-master-coordinator", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Starts a round at once."""
        with self._manager.changed:
            self._manager.notify()

    def stop(self) -> None:
        """Stops after the running round; waits only briefly for orders in progress."""
        self._stopped = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._callers.close()

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped:
            began, news = time.monotonic(), self._manager.news
            try:
                self.round()
            except NotTheLeader as error:
                _log.debug("no round: %s", error)
            except Error as error:
                _log.warning("a round failed", extra={"fields": {"error": str(error)}})
            except Exception:
                # Without rounds nothing would be repaired any more: whatever the error, the next one is tried.
                _log.exception("a round failed")
            with self._manager.changed:
                if not self._stopped and self._manager.news == news:
                    self._manager.changed.wait(ROUND_SECONDS)
            time.sleep(max(0.0, LEAST_SECONDS - (time.monotonic() - began)))

    def round(self) -> None:
        """Runs one round; raises if another master leads, or a write failed."""
        self._allow_for_pauses()
        if self._manager.load():
            with self._lock:
                self._book = OrderBook(self._rng)
                self._surplus = Surplus(self._options.surplus_grace)
            self._creating.clear()
            self._seen = None
        if not self._manager.is_leading:
            return
        self._keep_house()
        seen = self._look()
        if seen == self._seen:
            return
        is_written = self._write_down()
        self._forget_gone()
        self._place_anew()
        view = self._view()
        orders = decide(view, Limits(), self._rng)
        now_braked = is_braked(view, Limits())
        if now_braked != self.is_braked:
            self.is_braked = now_braked
            _log.warning("too many replicas are bad: none is replaced" if now_braked else "replicas are replaced again")
        if orders:
            # A deposed master that has not noticed it must not delete replicas that its successor has created.
            self._manager.rows.check_leader()
        self._give(view, orders)
        is_settled = is_written and not (orders or self._creating or self._surplus.since or len(self._book))
        self._seen = seen if is_settled else None

    def _forget_gone(self) -> None:
        with self._manager.changed:
            state, directory = self._manager.leading()
            gone = directory.forget_gone(state.leaving, self._manager.monotonic(), self._options.dead_after)
        for server in gone:
            _log.info("a server is forgotten", extra={"fields": {"id": server.id, "address": server.address}})
        if gone:
            self._ddl.forget_servers(server.id for server in gone)

    def _allow_for_pauses(self) -> None:
        """After a pause of this process (or its machine), does not count the pause as silence of the servers."""
        now = self._manager.monotonic()
        pause, self._last_round = now - self._last_round, now
        if pause > _PAUSE_SECONDS:
            with self._manager.changed:
                if self._manager.is_leading:
                    self._manager.leading()[1].discount_pause(pause)

    def _look(self) -> object:
        """Returns the inputs of a round. If they led to no work, equal ones will not either."""
        with self._manager.changed:
            state, directory = self._manager.leading()
            now, dead_after = self._manager.monotonic(), self._options.dead_after
            alive = frozenset(s.id for s in directory.servers.values() if now - s.last_heard < dead_after)
            return state, directory.version, alive

    def _view(self) -> ClusterView:
        manager = self._manager
        with self._lock, manager.changed:
            state, directory = manager.leading()
            return view_cluster(state, directory, self._surplus, manager.monotonic(), self._options.dead_after)

    def _write_down(self) -> bool:
        """Records what reports have shown; False if some of it can wait for more."""
        now = time.monotonic()
        with self._manager.changed:
            state, directory = self._manager.leading()
            change = settled(state, directory.tablets)
        if not change:
            return True
        is_waited_for = any(isinstance(record, TableRecord) for record in change.puts)
        if not is_waited_for and now - self._wrote < ROUND_SECONDS:
            return False
        self._wrote = now
        with self._manager.changing(now + _WRITE_SECONDS) as state:
            with self._manager.changed:
                change = settled(state, directory.tablets)
            if change:
                self._manager.commit(change, now + _WRITE_SECONDS)
        return True

    def _place_anew(self) -> None:
        manager = self._manager
        with manager.changed:
            state, directory = manager.leading()
            now = manager.monotonic()
            waiting = [t for t in state.tablets.values() if not t.is_created and not directory.tablets[t.id].is_serving]
            self._creating = {tablet.id: self._creating.get(tablet.id, now) for tablet in waiting}
        stuck: dict[str, list[str]] = {}
        for tablet in waiting:
            if now - self._creating[tablet.id] >= self._options.creation_timeout:
                stuck.setdefault(tablet.table_id, []).append(tablet.id)
                self._creating[tablet.id] = now  # if that fails now, it is retried after the same time
        for table_id, tablet_ids in stuck.items():
            _log.warning("tablets are placed again", extra={"fields": {"table": table_id, "tablets": tablet_ids}})
            self._ddl.replace_tablets(table_id, tablet_ids)

    def _keep_house(self) -> None:
        now = time.monotonic()
        if now - self._kept_house < _HOUSEKEEPING_SECONDS:
            return
        self._kept_house = now
        deadline = now + _WRITE_SECONDS
        with self._manager.changing(deadline) as state:
            change = forgotten_calls(state, time.time(), _KEEP_CALLS_SECONDS)
            if change:
                self._manager.commit(change, deadline)

    # ---- orders ----------------------------------------------------------------------------------------------------

    def _give(self, view: ClusterView, orders: Iterable[Order]) -> None:
        with self._lock:
            due = self._book.take_due(orders, self._manager.monotonic())
            book = self._book
        for order in due:
            self._callers.submit(partial(self._carry_out, book, order, view.address(order.server)))

    def _carry_out(self, book: OrderBook, order: Order, address: str) -> None:
        """Sends one order to its server, on a pool thread."""
        failure: Exception | None = None
        try:
            self._send(order, address)
        except Exception as error:
            failure = error
        with self._lock:
            now = self._manager.monotonic()
            failures = book.carried_out(order, now) if failure is None else book.failed(order, now)
        self._log(order, address, failure, failures)
        self.wake()

    def _log(self, order: Order, address: str, failure: Exception | None, failures: int) -> None:
        fields = {"order": type(order).__name__, "tablet": order.tablet_id, "to": address}
        if isinstance(order, AddReplica | RemoveReplica):
            fields["replica"] = order.peer.address
        if failure is None:
            if not isinstance(order, CreateReplica | AlterReplicas | AskReport):
                _log.info("an order was carried out", extra={"fields": fields})
        elif failures in (1, 10):
            fields |= {"error": str(failure), "failures": str(failures)}
            _log.info("an order failed", extra={"fields": fields}, exc_info=not isinstance(failure, Error))

    def _send(self, order: Order, address: str) -> None:
        with self._manager.changed:
            state, _ = self._manager.leading()
            tablet = state.tablets.get(order.tablet_id)
            description = None if tablet is None else state.tables[tablet.table_id].tablets[order.tablet_id]
        if description is None and isinstance(order, CreateReplica | AlterReplicas):
            return  # dropped in the meantime
        is_slow = isinstance(order, CreateReplica | AlterReplicas)
        seconds = _SLOW_ORDER_SECONDS if is_slow else _ORDER_SECONDS
        channel = self._channels.get(address)
        if not isinstance(order, AskReport):
            self._note(order, channel.call(request_of(order, description), timeout=seconds))
        if is_slow or isinstance(order, AskReport):
            # A caller waits for it: sooner than the next heartbeat.
            self._ask(order, channel)

    def _ask(self, order: Order, channel: Channel) -> None:
        manager = self._manager
        with manager.changed:
            before = manager.leading()[1].known(order.server, order.tablet_id)
        reply: TabletReports = channel.call(ReportTablets(tablet_ids=(order.tablet_id,)), timeout=_ORDER_SECONDS)
        with manager.changed:
            directory = manager.leading()[1]
            for report in reply.tablets:
                directory.add_requested_report(order.server, before, report)

    def _note(self, order: Order, reply: Reply) -> None:
        """Records the content of a response; reports bring the rest."""
        manager = self._manager
        if isinstance(order, AddReplica | RemoveReplica):
            with self._lock:
                self._surplus.moved(order.tablet_id, isinstance(order, AddReplica))
        if isinstance(reply, ConfigurationReply):
            with manager.changed:
                manager.leading()[1].note_configuration(order.tablet_id, reply.configuration)
