"""Messages between servers: one framed connection in each direction of a pair, for all tablets together.

send ──► outbox of the peer ──► PeerBatch in a MESSAGE frame ──► the peer's reactor ──► receive

All messages that wait for a peer when they are written go in one `PeerBatch`. Within `PeerTransport.holding` a thread
writes its messages itself at the end; all others are written in the next round of the reactor. Neither ever blocks:
what the kernel does not accept waits in the connection, and messages wait in the outbox while more than `UNSENT_BYTES`
wait there. The outbox is bounded, and dropped as a whole when it is full (Raft tolerates the loss).

A connection is opened with the first message, by a thread that ends when it is done, and again after it broke, after a
pause of 50 ms that doubles up to 1 s. It is abandoned after ten seconds in which nothing could be sent, or in which the
peer sent no message either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from ... import errors
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.store import Timestamp
from ...net.connection import Connection
from ...net.dialing import Dialed, NotTls, dial
from ...net.frame_server import FramedClient
from ...net.frames import MESSAGE, frame
from ...net.reactor import Reactor
from ...net.turn_batching import TurnBatch, for_each
from ..decoders import msgpack_decoder
from ..raft.messages import AppendRequest, Message, Peer
from .faults import FAULTS
from .messages.envelope import describe_lead, pack, too_far_ahead, unpack
from .peers import PeerBatch
from .security.tls import Credentials, accepts_only_tls

_logger = logging.getLogger("nyala.cluster.wire")

BATCH_BYTES: Final = 4 << 20
"""Approximate bytes of one `PeerBatch`; a single message may be larger."""
OUTBOX_BYTES: Final = 64 << 20
"""Most bytes that wait for one peer; beyond that, everything that waits is dropped."""
UNSENT_BYTES: Final = 1 << 20
"""Bytes that the kernel has not accepted yet, beyond which messages stay in the outbox."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between attempts to open a connection."""
SILENCE: Final = 10.0
"""Seconds after which a connection that accepts nothing, or whose peer sends nothing, is abandoned."""
DIAL_SECONDS: Final = 5.0
_CHECK_SECONDS: Final = 1.0
_decoder = msgpack_decoder(PeerBatch)


class _Outgoing:
    """The protocol of a connection that this side has opened: it only sends."""

    def __init__(self, link: _Link):
        self._link = link
        self.connection: Connection
        self.opened = time.monotonic()

    def connection_made(self, connection: Connection) -> None:
        self.connection = connection

    def bytes_received(self, data: memoryview) -> None:
        raise errors.ProtocolError("a server replies to no message; it has refused them")

    def drained(self) -> None:
        self._link.write_waiting()

    def check(self, now: float) -> str:
        return ""

    def connection_lost(self, reason: str) -> None:
        self._link.lost(self, reason)


class _Link:
    """The outbox of one peer, and the connection that empties it."""

    def __init__(self, transport: PeerTransport, peer: Peer):
        self._transport = transport
        self._peer = peer
        # Held by the thread that writes. Acquired before the other.
        self._turn = threading.Lock()
        # Guards all below.
        self._lock = threading.Lock()
        self._outbox: deque[tuple[str, Message, int]] = deque()
        self._outbox_bytes = 0
        self._outgoing: _Outgoing | None = None
        self._is_dialing = False
        self._dialed: Dialed | None = None
        """A new connection that the reactor has not taken over yet."""
        self._is_scheduled = False
        """True if the reactor will write soon."""
        self._is_closed = False
        self._pause = 0.0
        self._dials_at = 0.0
        self.heard = 0.0
        """When a message last came from the peer, by `time.monotonic`."""

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        """Adds a message to the outbox, which is written soon."""
        size = _size(message)
        with self._lock:
            if self._is_closed:
                return
            if peer.address != self._peer.address:
                self._move(peer)
            if self._outbox_bytes + size > OUTBOX_BYTES and self._outbox:
                _logger.warning(
                    "%d messages to %s have waited for too long and are dropped", len(self._outbox), peer.id
                )
                self._outbox.clear()
                self._outbox_bytes = 0
            self._outbox.append((tablet_id, message, size))
            self._outbox_bytes += size
            if _held.add(self) or self._is_scheduled:
                return
            self._is_scheduled = True
        self._transport.reactor.call_soon(self._write_scheduled)

    def _move(self, peer: Peer) -> None:
        """Handles a new address of the peer. Needs the lock."""
        self._peer = peer
        self._pause = self._dials_at = 0.0
        if self._outgoing is not None:
            self._outgoing.connection.abort("its server has another address now")
            self._outgoing = None

    def _write_scheduled(self) -> None:
        with self._lock:
            self._is_scheduled = False
        self.write_waiting()

    def write_waiting(self) -> None:
        """Sends queued messages as far as the connection accepts them; opens one if there is none."""
        while True:
            if not self._turn.acquire(blocking=False):
                return  # the present writer looks once more
            try:
                self._write_all()
            finally:
                self._turn.release()
            if not self._outbox or not self._accepts():
                return

    def _accepts(self) -> bool:
        outgoing = self._outgoing
        return outgoing is not None and not outgoing.connection.is_closed and outgoing.connection.unsent < UNSENT_BYTES

    def _write_all(self) -> None:
        """Needs the turn."""
        while True:
            with self._lock:
                if not self._outbox or self._is_closed:
                    return
                outgoing = self._outgoing
                if outgoing is None:
                    self._open()
                    return
                if self._is_silent(outgoing):
                    self._outgoing = None
                    outgoing.connection.abort("the peer is silent")
                    self._open()
                    return
                if not self._accepts():
                    return  # `drained` or `lost` goes on
                waiting = self._take()
            if waiting:
                try:
                    outgoing.connection.send(frame(MESSAGE, 0, self._transport.packed(waiting)))
                except Exception:
                    # A message that cannot be packed is lost; the following ones are not.
                    _logger.exception("messages to %s could not be sent", self._peer.id)

    def _is_silent(self, outgoing: _Outgoing) -> bool:
        """True if nothing has arrived from the peer for too long."""
        return time.monotonic() - max(outgoing.opened, self.heard) >= SILENCE

    def _take(self) -> list[tuple[str, Message]]:
        """Takes waiting messages, oldest first, up to the size of one batch. Needs the lock."""
        taken: list[tuple[str, Message]] = []
        size = 0
        peer = self._peer
        while self._outbox and (not taken or size + self._outbox[0][2] <= BATCH_BYTES):
            tablet_id, message, bytes_ = self._outbox.popleft()
            taken.append((tablet_id, message))
            size += bytes_
        self._outbox_bytes -= size
        return [] if FAULTS.is_cut(peer.id, peer.address) else taken

    # ---- connections -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Begins to open a connection, now or after the pause. Needs the lock."""
        if self._is_dialing:
            return
        self._is_dialing = True
        wait = self._dials_at - time.monotonic()
        if wait > 0:
            self._transport.reactor.call_soon(lambda: self._transport.reactor.call_later(wait, self._dial_in_thread))
        else:
            self._dial_in_thread()

    def _dial_in_thread(self) -> None:
        threading.Thread(target=self._dial, name=f"nyala-peer-dial-{self._peer.id}", daemon=True).start()

    def _dial(self) -> None:
        peer = self._peer
        try:
            dialed = self._transport.dial(peer)
        except Exception as error:
            if not isinstance(error, errors.Error):
                _logger.exception("no connection to %s", peer.id)
            self._failed(error)
            return
        with self._lock:
            if self._is_closed:
                dialed.socket.close()
                return
            self._dialed = dialed
        self._transport.reactor.call_soon(lambda: self._adopt(peer))

    def _failed(self, error: Exception) -> None:
        """After a failure, pauses before the next attempt."""
        if isinstance(error, errors.AuthenticationFailed) and not self._pause:
            _logger.info("no connection to %s: %s", self._peer.address, error)
        _logger.debug("no connection to %s: %s", self._peer.id, error)
        with self._lock:
            self._is_dialing = False
            self._note_failure()
            if self._pause > SHORTEST_PAUSE:
                # The peer is down: by the time it is back, newer messages replace these.
                self._outbox.clear()
                self._outbox_bytes = 0
            if self._outbox and not self._is_closed:
                self._open()

    def _note_failure(self) -> None:
        """Needs the lock."""
        self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, 2 * self._pause))
        self._dials_at = time.monotonic() + self._pause

    def _adopt(self, peer: Peer) -> None:
        """Uses a new connection; in the reactor's thread."""
        with self._lock:
            dialed, self._dialed = self._dialed, None
        if dialed is None:
            return  # closed meanwhile
        outgoing = _Outgoing(self)
        connection = Connection(
            self._transport.reactor, dialed.socket, peer.address, outgoing, dialed.tls, stall_seconds=SILENCE
        )
        with self._lock:
            self._is_dialing = False
            is_wanted = not self._is_closed and peer.address == self._peer.address
            if is_wanted:
                self._outgoing = outgoing
        self._transport.note(connection)
        connection.attach()
        if not is_wanted:
            connection.lose("")
        self.write_waiting()

    def lost(self, outgoing: _Outgoing, reason: str) -> None:
        """Handles the end of the connection."""
        with self._lock:
            if self._outgoing is not outgoing:
                return
            self._outgoing = None
            if time.monotonic() - outgoing.opened > LONGEST_PAUSE:
                self._pause = 0.0
            self._note_failure()
            if self._outbox and not self._is_closed:
                self._open()
        if reason:
            _logger.info("the connection to %s ended: %s", self._peer.address, reason)

    def close(self) -> None:
        """Closes the connection; sends nothing more."""
        with self._lock:
            self._is_closed = True
            self._outbox.clear()
            outgoing, self._outgoing = self._outgoing, None
            dialed, self._dialed = self._dialed, None
        if dialed is not None:
            dialed.socket.close()
        if outgoing is not None:
            outgoing.connection.abort()


_held: TurnBatch[_Link] = TurnBatch(for_each(_Link.write_waiting))


class PeerTransport:
    """Transport of messages to and from other servers (`peers.Transport`).

    Parameters
    ----------
    server : callable
        Returns this server as a peer.
    clock : HybridClock
        Sent with each batch, and updated by each received one.
    receive : callable
        Receives batches, in the reactor's thread; it must not block.
    reactor : Reactor
        The server's own.
    tls : Credentials, optional
        For authentication between servers; None: no encryption.
    """

    def __init__(
        self,
        server: Callable[[], Peer],
        clock: HybridClock,
        receive: Callable[[PeerBatch], None],
        reactor: Reactor,
        tls: Credentials | None = None,
    ):
        self.reactor = reactor
        self._tls = tls
        self._server = server
        self._clock = clock
        self._receive = receive
        # Guards the two below.
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        self._is_closed = False
        self._wrong_clocks: set[str] = set()
        """Ids of servers whose clocks are too far ahead, as was logged."""
        self._connections: set[Connection] = set()
        """For the reactor's thread."""
        stay_with_process(self)

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        """Sends a message soon; returns at once."""
        link = self._links.get(peer.id)
        if link is None:
            link = self._link(peer)
        if link is not None and not FAULTS.is_cut(peer.id, peer.address):  # checked now, and again when it is written
            link.send(peer, tablet_id, message)

    @staticmethod
    def holding() -> AbstractContextManager[None]:
        """Holds back this thread's messages, and writes them at the end. Must be left without any lock held."""
        return _held.turn()

    def receive(self, client: FramedClient, body: bytes) -> None:
        """Processes a message of another server: the `message` of `RpcServer`."""
        batch: PeerBatch = unpack(body, _decoder, "message of a peer", is_trusted=True)
        if batch.sender.id:
            link = self._links.get(batch.sender.id) or self._link(batch.sender)
            if link is not None:
                link.heard = time.monotonic()
        self._take_in(batch)

    def close(self) -> None:
        """Stops sending and receiving."""
        with self._lock:
            self._is_closed = True
            links = list(self._links.values())
        for link in links:
            link.close()

    # ---- for links -------------------------------------------------------------------------------------------------

    def packed(self, messages: list[tuple[str, Message]]) -> bytes:
        """Returns a packed batch of these messages."""
        return pack(PeerBatch(self._server(), self._clock.now(), tuple(messages)))

    def dial(self, peer: Peer) -> Dialed:
        """Opens a connection to a peer; raises as `net.dialing.dial`."""
        FAULTS.check(peer.id, peer.address)
        tls = None if self._tls is None else self._tls.for_calls(peer.address)
        try:
            return dial(peer.address, b"", BATCH_BYTES, DIAL_SECONDS, tls)
        except NotTls:
            raise accepts_only_tls(peer.address) from None

    def note(self, connection: Connection) -> None:
        """Watches a new connection of a link; in the reactor's thread."""
        self._connections.add(connection)
        connection.on_closed = self._connections.discard
        if len(self._connections) == 1:
            self.reactor.call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.check(now)
        if self._connections:
            self.reactor.call_later(_CHECK_SECONDS, self._check)

    def _link(self, peer: Peer) -> _Link | None:
        with self._lock:
            if self._is_closed:
                return None
            link = self._links.get(peer.id)
            if link is None:
                link = self._links[peer.id] = _Link(self, peer)
            return link

    # ---- received messages -----------------------------------------------------------------------------------------

    def _take_in(self, batch: PeerBatch) -> None:
        if FAULTS.is_cut(batch.sender.id, batch.sender.address):
            return
        if too_far_ahead(self._clock, batch.clock, is_peer=True):
            self._refuse(batch)
            return
        if batch.sender.id in self._wrong_clocks:
            self._wrong_clocks.discard(batch.sender.id)
            _logger.info("the clock of server %s is right again", batch.sender.id)
        self._clock.update(Timestamp(batch.clock))
        if batch.messages and not self._is_closed:
            self._receive(batch)

    def _refuse(self, batch: PeerBatch) -> None:
        """Drops the messages of a server whose clock is too far ahead, as if it were partitioned: it neither leads nor
        votes."""
        if batch.sender.id not in self._wrong_clocks:
            self._wrong_clocks.add(batch.sender.id)
            _logger.error(
                "%s; its messages are dropped until it is right",
                describe_lead(self._clock, batch.clock, f"server {batch.sender.id} at {batch.sender.address}"),
            )


def _size(message: Message) -> int:
    """Returns its approximate number of bytes."""
    if type(message) is AppendRequest and message.entries:
        return 64 + sum(32 + len(entry.body) for entry in message.entries)
    return 64
