"""Messages between servers over long-lived Flight exchanges: one per pair of servers, for all tablets together.

send ──► outbox of the peer ──► its sender thread ──► PeerBatch as app_metadata ──► reader ──► receive

All messages that wait for a peer when its sender runs are sent in one `PeerBatch`. Each peer has its own sender, so an
unresponsive peer delays no other one, and never the caller of `send`: its outbox is bounded, and dropped as a whole
when it is full (Raft tolerates the loss).

Waking a sender costs more than writing a small message. Within `FlightTransport.holding`, a thread therefore writes its
messages itself at the end, if that cannot block. Each batch reports how many bytes have been read in the other
direction, and only `WINDOW` bytes, fewer than gRPC buffers, may be written this way beyond the confirmed ones.

The server with the first message opens the exchange; the other side uses the same one. If both opened one at the same
time, the one of the server with the smaller id is kept. Correctness does not depend on it: both sides read every open
exchange. A broken exchange is opened again, after a pause of 50 ms that doubles up to 1 s. An exchange is abandoned
after a write has hung for ten seconds, or after ten seconds of sending without a message from the peer.

The lock of a link guards its outbox and its choice of stream. A stream's own lock is held during writes, which may take
long, and never acquired with a link's lock held.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from ... import errors
from ...model.clock import HybridClock
from ...model.store import Timestamp
from ..decoders import msgpack_decoder
from ..raft.messages import AppendRequest, Message, Peer
from .calls.exchanges import messages
from .calls.rpc import Connection
from .calls.turn_batching import TurnBatch, for_each
from .faults import FAULTS
from .messages.envelope import describe_lead, pack, too_far_ahead, unpack
from .messages.errors import flight_text
from .peers import PeerBatch
from .security.tls import Credentials

_logger = logging.getLogger("nyala.cluster.wire")

BATCH_BYTES = 4 << 20
"""Approximate bytes of one `PeerBatch`; a single message may be larger."""
OUTBOX_BYTES = 64 << 20
"""Most bytes that wait for one peer; beyond that, everything that waits is dropped."""
GATHERING, BUSY_GATHERING, GATHERED_BYTES = 0.001, 0.002, 64 << 10
"""Seconds between batches to one peer, unless this number of bytes waits. The second value applies after a batch of
several messages, when more are likely to come."""
WINDOW = 32 << 10
"""Unconfirmed bytes up to which the sending thread writes itself; beyond that, its sender does."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between attempts to open an exchange."""
SILENCE = 10.0
"""Seconds after which an exchange that receives nothing, or accepts nothing, is abandoned."""

_COMMAND = flight.FlightDescriptor.for_command(b"nyala.peers")
_GOODBYE = b"bye"
"""Requests that the opener closes the exchange: only it can."""
_decoder = msgpack_decoder(PeerBatch)


class _Stream:
    """One exchange, opened by this side (with `cancel`) or by the other."""

    def __init__(self, writer: Any, cancel: Callable[[], None] | None):
        self._writer = writer
        self._cancel = cancel
        # Held during writes on the exchange.
        self._writing = threading.Lock()
        self.is_own = cancel is not None
        self.is_dead = False
        self.read = 0
        """Bytes of messages that were received on it."""
        self._written = 0
        self._acknowledged = 0
        self._has_ended = False
        self.busy_since: float | None = None
        self.opened = time.monotonic()

    def write(self, data: bytes) -> None:
        """Sends a message; raises `ServerUnavailable` if the exchange is broken."""
        with self._writing:
            if self.is_dead:
                raise errors.ServerUnavailable("the exchange is closed")
            self.busy_since = time.monotonic()
            self._written += len(data)
            try:
                self._writer.write_metadata(data)
            except (pa.ArrowException, OSError, ValueError) as error:
                self.is_dead = True
                raise errors.ServerUnavailable(f"the exchange broke: {flight_text(error)}") from None
            finally:
                self.busy_since = None

    def takes(self, size: int) -> bool:
        """True if this number of bytes can be written without blocking."""
        return self._written - self._acknowledged + size <= WINDOW

    def acknowledge(self, read: int) -> None:
        """Records how many bytes the other side has read so far."""
        self._acknowledged = max(self._acknowledged, read)

    def is_hanging(self, now: float) -> bool:
        busy_since = self.busy_since
        return busy_since is not None and now - busy_since > SILENCE

    def give_up(self) -> None:
        """Stops sending on it; if this side opened it, it ends."""
        self.is_dead = True
        if self._cancel is not None:
            self._cancel()

    def say_goodbye(self) -> None:
        """Requests that the other side ends it."""
        with self._writing, contextlib.suppress(pa.ArrowException, OSError, ValueError):
            if not self._has_ended:  # a writer must not be touched once its exchange has ended (`wait_unused`)
                self._writer.write_metadata(_GOODBYE)

    def finish(self) -> None:
        """Releases an ended exchange of this side."""
        self.give_up()
        with self._writing, contextlib.suppress(pa.ArrowException, OSError, ValueError):
            self._writer.close()

    def wait_unused(self) -> None:
        """For an exchange that the other side has ended: returns when no thread writes on it, nor will."""
        self.is_dead = True
        with self._writing:
            self._has_ended = True


class _Link:
    """The outbox of one peer, and the thread that empties it."""

    def __init__(self, transport: FlightTransport, peer: Peer):
        self._transport = transport
        self._changed = threading.Condition()
        self._peer = peer
        self._outbox: deque[tuple[str, Message, int]] = deque()
        self._outbox_bytes = 0
        self._stream: _Stream | None = None
        self._turn: object | None = None
        """Held by the thread that writes."""
        self._is_closed = False
        self._pause = 0.0
        self._sent_at = 0.0
        self._gathering = GATHERING
        self.heard = 0.0
        """When a message last came from the peer, by `time.monotonic`."""
        self._connection = Connection(peer.address, transport.tls)
        self._sender: threading.Thread | None = None

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        size = _size(message)
        with self._changed:
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
            if not _held.add(self) and (self._sender is None or len(self._outbox) == 1):
                self._wake_sender()

    def _move(self, peer: Peer) -> None:
        """Handles a new address of the peer."""
        self._peer = peer
        self._connection.close()
        self._connection = Connection(peer.address, self._transport.tls)
        if self._stream is not None and self._stream.is_own:
            threading.Thread(target=self._stream.give_up, name="nyala-peer-cancel", daemon=True).start()
        self._stream = None

    def _wake_sender(self) -> None:
        """Wakes the sender. Needs the lock."""
        if self._sender is None:
            self._start_sender()
        else:
            self._changed.notify_all()

    def _start_sender(self) -> None:
        self._sender = threading.Thread(target=self._run, name=f"nyala-peer-send-{self._peer.id}", daemon=True)
        self._sender.start()

    # ---- writing at once -------------------------------------------------------------------------------------------

    def write_waiting(self) -> None:
        """Sends queued messages without blocking; the sender thread takes the rest."""
        turn = object()
        while True:
            with self._changed:
                if self._turn is not None and self._turn is not turn:
                    return  # the present writer checks once more
                stream = self._stream
                if not self._outbox or stream is None or not self._can_write_on(stream):
                    self._turn = None
                    if self._outbox and not self._is_closed:
                        self._wake_sender()
                    return
                self._turn = turn
                waiting = self._take()
            try:
                self._write(stream, waiting)
            except errors.Error as error:
                _logger.debug("no exchange with %s: %s", self._peer.id, error)
                stream.give_up()
            except Exception:
                _logger.exception("messages to %s could not be sent", self._peer.id)

    def _can_write_on(self, stream: _Stream) -> bool:
        return not (self._is_closed or stream.is_dead or self._is_silent(stream)) and stream.takes(self._outbox_bytes)

    def _is_silent(self, stream: _Stream) -> bool:
        """True if nothing has arrived on it for too long."""
        return time.monotonic() - max(stream.opened, self.heard) >= SILENCE

    def _write(self, stream: _Stream, waiting: list[tuple[str, Message]]) -> None:
        if waiting:
            stream.write(self._transport.packed(waiting, stream.read))
            self._sent_at = time.monotonic()
            self._gathering = GATHERING if len(waiting) == 1 else BUSY_GATHERING

    # ---- the sender's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: (self._outbox and self._turn is None) or self._is_closed or self._sender is not me
                )
                if self._is_closed or self._sender is not me:
                    return
            self._gather()
            stream: _Stream | None = None
            try:
                stream = self._stream_to_use()
                with self._changed:
                    if self._turn is not None or self._sender is not me:
                        continue
                    self._turn = me
                    waiting = self._take()
                self._write(stream, waiting)
                self._pause = 0.0
            except errors.Error as error:
                _logger.debug("no exchange with %s: %s", self._peer.id, error)
                self._rest(me, stream)
            except Exception:
                # A message that cannot be packed is lost; the following ones are not.
                _logger.exception("messages to %s could not be sent", self._peer.id)
                self._rest(me, stream)
            finally:
                with self._changed:
                    if self._turn is me:
                        self._turn = None

    def _gather(self) -> None:
        """Waits for more small messages if the last batch was sent only just before. Under load a message costs both
        servers more than its content, and one that follows a quiet moment does not wait."""
        left = self._sent_at + self._gathering - time.monotonic()
        if left > 0 and self._outbox_bytes < GATHERED_BYTES:
            time.sleep(left)

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

    def _rest(self, me: threading.Thread, stream: _Stream | None) -> None:
        """After a failure, abandons the stream, and pauses before the next is opened, unless there is one."""
        if stream is not None:
            stream.give_up()
        with self._changed:
            if self._sender is not me:
                return
            if self._stream is stream:
                self._stream = None
            self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, 2 * self._pause))
            if self._pause > SHORTEST_PAUSE:
                # The peer is down: by the time it is back, newer messages replace these.
                self._outbox.clear()
                self._outbox_bytes = 0
            # An exchange that the peer opens ends the pause, and so does `close`.
            self._changed.wait_for(lambda: self._is_closed or self._stream is not None, self._pause)

    def _stream_to_use(self) -> _Stream:
        with self._changed:
            stream = self._stream
            connection, peer = self._connection, self._peer
        if stream is not None and not stream.is_dead:
            if not self._is_silent(stream):
                return stream
            stream.give_up()
            connection.renew()
        stream = self._transport.open(connection, peer, self)
        if not self.offer(stream):
            stream.give_up()
        with self._changed:
            if self._stream is None:
                raise errors.ServerUnavailable("the exchange is closed")
            return self._stream

    # ---- streams ---------------------------------------------------------------------------------------------------

    def offer(self, stream: _Stream) -> bool:
        """Offers a stream for writing; True if it is used, False if there is a better one."""
        own_id, spare = self._transport.own_id, None
        with self._changed:
            current = self._stream
            if self._is_closed:
                return False
            if current is not None and not current.is_dead and current.is_own != stream.is_own:
                # Both sides opened one: the smaller id's is kept.
                if current.is_own == (own_id < self._peer.id):
                    return False
                spare = current
            self._stream = stream
            self._changed.notify_all()
        if spare is not None and spare.is_own:
            spare.give_up()
        return True

    def lost(self, stream: _Stream) -> None:
        """Handles the end of the stream."""
        stream.is_dead = True
        with self._changed:
            if self._stream is stream:
                self._stream = None

    def check_hanging(self, now: float) -> None:
        """Abandons a stream on which a write hangs, and continues on another thread if it cannot be ended."""
        with self._changed:
            stream = self._stream
            if stream is None or not stream.is_hanging(now) or self._is_closed:
                return
            self._stream = self._turn = None
            if not stream.is_own:
                self._start_sender()
        _logger.warning("a message to %s has hung for %.0f s: its exchange is abandoned", self._peer.id, SILENCE)
        stream.give_up()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._outbox.clear()
            stream, self._stream = self._stream, None
            sender = self._sender
            self._changed.notify_all()
        if stream is not None:
            stream.give_up()
        self._connection.close()
        if sender is not None and sender is not threading.current_thread():
            sender.join(1.0)


_held: TurnBatch[_Link] = TurnBatch(for_each(_Link.write_waiting))


class FlightTransport:
    """Transport of messages to and from other servers (`peers.Transport`).

    Parameters
    ----------
    server : callable
        Returns this server as a peer.
    clock : HybridClock
        Sent with each batch, and updated by each received one.
    receive : callable
        Receives batches, from several threads; it should return soon.
    tls : Credentials, optional
        For authentication between servers; None: no encryption.
    """

    def __init__(
        self,
        server: Callable[[], Peer],
        clock: HybridClock,
        receive: Callable[[PeerBatch], None],
        tls: Credentials | None = None,
    ):
        self.tls = tls
        self._server = server
        self._clock = clock
        self._receive = receive
        # Guards the five below.
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        self._accepted: set[_Stream] = set()
        self._readers: set[threading.Thread] = set()
        self._wrong_clocks: set[str] = set()
        """Ids of servers whose clocks are too far ahead, as was logged."""
        self._watcher: threading.Thread | None = None
        self._is_closed = False
        self._closing = threading.Event()

    @property
    def own_id(self) -> str:
        return self._server().id

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        """Sends a message soon; returns at once."""
        link = self._links.get(peer.id)
        if link is None:
            link = self._link(peer)
        if link is not None and not FAULTS.is_cut(peer.id, peer.address):  # checked now, and again when it is written
            link.send(peer, tablet_id, message)

    @staticmethod
    def holding() -> AbstractContextManager[None]:
        """Holds back this thread's messages, and writes them at the end, as far as that cannot block. Must be left
        without any lock held."""
        return _held.turn()

    def serve(self, flight_context: Any, reader: Any, writer: Any) -> None:
        """Reads an exchange that another server has opened, until it ends: the `exchange` of `RpcServer`."""
        stream = _Stream(writer, None)
        with self._lock:
            if self._is_closed:
                return
            self._accepted.add(stream)
        link: _Link | None = None
        try:
            for data in messages(reader, "the peer"):
                batch = self._unpacked(data, stream)
                if batch.sender.id and link is None:
                    link = self._link(batch.sender)
                    if link is not None:
                        link.offer(stream)
                if link is not None:
                    link.heard = time.monotonic()
                self._take_in(batch)
                if self._is_closed:
                    return
        finally:
            with self._lock:
                self._accepted.discard(stream)
            if link is not None:
                link.lost(stream)
            stream.wait_unused()

    def close(self) -> None:
        """Stops sending and receiving; all exchanges end."""
        with self._lock:
            self._is_closed = True
            links, accepted, watcher = list(self._links.values()), list(self._accepted), self._watcher
            readers = list(self._readers)
        self._closing.set()
        for link in links:
            link.close()
        for stream in accepted:
            # Only its opener can end it. The request may hang, so it is not waited for.
            threading.Thread(target=stream.say_goodbye, name="nyala-peer-goodbye", daemon=True).start()
        if watcher is not None:
            watcher.join()
        for reader in readers:
            if reader is not threading.current_thread():
                reader.join(1.0)

    # ---- for links -------------------------------------------------------------------------------------------------

    def packed(self, messages: list[tuple[str, Message]], read: int) -> bytes:
        """Returns a packed batch of these messages."""
        return pack(PeerBatch(self._server(), self._clock.now(), tuple(messages), read))

    def open(self, connection: Connection, peer: Peer, link: _Link) -> _Stream:
        """Opens an exchange with a peer; raises `ServerUnavailable` if that fails at once."""
        FAULTS.check(peer.id, peer.address)
        client = connection.client()
        try:
            writer, reader = client.do_exchange(_COMMAND)
        except (pa.ArrowException, OSError) as error:
            raise connection.lost(client, error) from None
        stream = _Stream(writer, reader.cancel)
        thread = threading.Thread(
            target=self._read_own,
            args=(stream, reader, client, connection, link),
            name=f"nyala-peer-read-{peer.id}",
            daemon=True,
        )
        with self._lock:
            self._readers.add(thread)
        thread.start()
        stream.write(self.packed([], 0))
        return stream

    def _read_own(self, stream: _Stream, reader: Any, client: Any, connection: Connection, link: _Link) -> None:
        try:
            for data in messages(reader, "the peer"):
                if data == _GOODBYE:
                    break
                link.heard = time.monotonic()
                connection.heard()
                self._take_in(self._unpacked(data, stream))
        except errors.Error as error:
            connection.failed(client, error)
            if not stream.is_dead:
                _logger.info("the exchange with %s ended: %s", connection.address, connection.explained(error))
        except Exception:
            _logger.exception("the exchange with %s is abandoned", connection.address)
        finally:
            link.lost(stream)
            stream.finish()
            with self._lock:
                self._readers.discard(threading.current_thread())

    def _link(self, peer: Peer) -> _Link | None:
        with self._lock:
            if self._is_closed:
                return None
            link = self._links.get(peer.id)
            if link is None:
                link = self._links[peer.id] = _Link(self, peer)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="nyala-peer-watch", daemon=True)
                self._watcher.start()
            return link

    def _watch(self) -> None:
        while not self._closing.wait(SILENCE / 4):
            with self._lock:
                links = list(self._links.values())
            for link in links:
                link.check_hanging(time.monotonic())

    def _unpacked(self, data: bytes, stream: _Stream) -> PeerBatch:
        batch: PeerBatch = unpack(data, _decoder, "message of a peer", is_trusted=True)
        stream.read += len(data)
        stream.acknowledge(batch.read)
        return batch

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
    if isinstance(message, AppendRequest) and message.entries:
        return 64 + sum(32 + len(entry.body) for entry in message.entries)
    return 64
