"""Forcing a configuration on one peer whose majority is permanently lost: the last resort (Kudu:
`unsafe_change_config`).

    log        ... | last entry | CONFIGURATION: the surviving peers, in a new term
    consensus  term of that entry, no vote

The peer that is opened with these files is elected by the surviving peers, and commits its whole log. Entries that the
others had acknowledged without it are lost. Its entries that were never acknowledged become committed.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...errors import ConfigurationRefused
from ...model.clock import HybridClock
from ...model.store import Timestamp
from ...storage.files.filesystem import FileSystem
from ...storage.log.wal_format import EntryKind
from ..raft.membership import decode_configuration, encode_configuration
from ..raft.messages import Configuration, Entry, Peer, PeerRole
from .consensus_file import read_consensus, write_consensus
from .log.raft_log import AlterSchema, RaftLog


def force_configuration(
    fs: FileSystem,
    directory: str,
    schema: pa.Schema,
    server: str,
    survivors: Sequence[str],
    clock: HybridClock,
    *,
    applied_index: int,
    alter_schema: AlterSchema,
) -> Configuration:
    """Replaces the configuration of a peer that is not open by some of its peers.

    Parameters
    ----------
    fs, directory : the peer's files
    schema : pa.Schema
        Of logged rows, for a log without entries.
    server : str
        The id of this server, which must be among the survivors.
    survivors : sequence of str
        Ids of peers of the current configuration.
    clock : HybridClock
    applied_index : int
        The tablet's files have everything up to this index.
    alter_schema : callable
        As in `ConsensusHost.open`.

    Returns the new configuration in force. Raises `ConfigurationRefused` for invalid survivors, `CorruptionError` or
    `DiskError` if the files cannot be used.
    """
    kept = read_consensus(fs, directory)
    log = RaftLog(
        fs,
        f"{directory}/wal",
        schema,
        base_index=kept.base_index,
        base_term=kept.base_term,
        known_index=applied_index,
        alter_schema=alter_schema,
    )
    try:
        configurations = [kept.configuration]
        configurations += [decode_configuration(entry.body, entry.index) for entry in log.configurations]
        newest = max(configurations, key=lambda found: found.index)
        peers = _remaining(newest, server, survivors)
        last_term = log.term(log.last_index) or 0
        term, index = max(kept.term, last_term) + 1, log.last_index + 1
        clock.update(Timestamp(max(log.newest_timestamp, kept.clock_limit)))
        body = encode_configuration(Configuration(peers, index))
        log.append([Entry(term, index, clock.now(), int(EntryKind.CONFIGURATION), body)])
        log.persist(force=True)
    finally:
        log.close()
    forced = Configuration(peers, index)
    state = type(kept)(
        term=term,
        vote="",
        configuration=kept.configuration,
        base_index=kept.base_index,
        base_term=kept.base_term,
        clock_limit=kept.clock_limit,
        clock_lead=kept.clock_lead,
    )
    write_consensus(fs, directory, state)
    return forced


def _remaining(newest: Configuration, server: str, survivors: Sequence[str]) -> tuple[Peer, ...]:
    known = {peer.id: peer for peer in newest.peers}
    strangers = [id_ for id_ in survivors if id_ not in known]
    if strangers:
        raise ConfigurationRefused(
            f"{', '.join(strangers)} are not peers of the tablet: those are {', '.join(known) or 'none'}"
        )
    if server not in survivors:
        raise ConfigurationRefused(f"{server} itself must be among the survivors ({', '.join(survivors)})")
    return tuple(Peer(id_, known[id_].address, PeerRole.VOTER) for id_ in dict.fromkeys(survivors))
