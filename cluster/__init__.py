"""The replicated cluster: tablets replicated by Raft across tablet servers, masters with the catalog, and a client that
is a `Store`.

    client/           the `Store` of a cluster: cached metadata, routing, retries, scans, bulk loads
    master/           the master: catalog, placement and repair, directory of tablets
    tserver/          the tablet server: many replicas, scans, remote bootstrap, heartbeats
    tablets/          one replica: a storage tablet over a replicated log, exactly-once results, copies
    consensus/        a Raft peer with disk, threads and network: its log, its driver, the apply thread
    raft/             the Raft state machine, without clock, disk or socket
    wire/             methods, messages, encodings, streams, TLS and server processes, over `net` and Arrow Flight
    embedded_server/  a server for the store of one process, which speaks the same protocol
    admin/            commands and checks: local clusters, ksck, moves, rebalancing, certificates
    locations.py      locations of servers, and how replicas are spread over them
    decoders.py       construction of msgspec decoders, under one lock
    disk_errors.py    classification of disk errors: full, passing, damage

The life of a replicated write:

1. `client.client.Client.write` routes the rows to tablets (`client.writes.routing.route`) and cuts them into messages.
   `client.writes.batch_writes.Writer` sends these in parallel, each with a call id. `client.tablet_calls.TabletCalls`
   sends each one to the leader of its tablet, and retries with the same call id until there is a reply or the
   deadline passes.
2. The leader's server decodes the request (`wire.server.RpcServer`), reserves memory
   (`tserver.tablet_service.TabletService.write`) and passes it to the replica (`tablets.replica.Replica.write`).
3. `tablets.leader_writes.LeaderWrites` first looks the call id up in the exactly-once table: a retry gets the recorded
   result. Otherwise it resolves the rows under the tablet's write lock, as the embedded store does, and applies the
   changes to memory, in flight: no reader sees them yet.
4. The changes, their timestamp, the call id and the result become one log entry
   (`consensus.log.replicated_log.ReplicatedLog.append`). `consensus.peer_driver.PeerDriver` passes it to
   `raft.node.RaftNode.step` as a `Propose`, and processes the `Ready` that comes back.
5. The entry is sent to the followers (`wire.peer_transport.PeerTransport`) while the leader's own log thread writes and
   syncs it (`consensus.log.raft_log.RaftLog.persist`).
6. Each follower appends the entry (`raft.following.Following.on_append`), syncs it, and acknowledges the log index up
   to which its log is durable.
7. The entry is committed when a majority of the voters has it durable (`raft.leading.Leading.count_entries`).
   The leader commits the write in its tablet: it becomes visible, and the client gets its result.
8. Followers learn the commit index with the next message, and apply the entry (`consensus.applier.Applier`) by the
   code that replays a log after a restart.

A leader that fails before step 7 leaves the entry to the next leader, which commits or truncates it. The client's retry
with the same call id then returns the recorded result, or does the write for the first time.
"""
