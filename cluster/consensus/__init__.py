"""Raft peers with disk, threads and network.

    host               all peers of a server: shared threads, dispatch of messages
    peer_driver        one peer: steps its `RaftNode`, executes each `Ready`
    consensus          the interface to replica and server: status, reads, proposals, configuration changes
    proposals          undecided entries of this peer, and the threads that wait for them
    applier            passes committed entries to the replica
    interfaces         the protocol that the replica implements
    log/               the replicated log: in memory, on disk in segments, retention
    consensus_file     term, vote, configuration and clock limit, kept over restarts
    workers, gatherer  thread pool, timer; delayed sends

The life of a proposal: `log.replicated_log.ReplicatedLog.append` steps a `Propose`; `peer_driver.PeerDriver` sends its
messages and queues its log for a log thread; that thread persists the log and steps `Persisted`; a step that raises the
commit index decides the proposal (`proposals.Proposals.commit`), and the waiting writer continues. At followers,
`applier.Applier` passes the entry to the replica.
"""
