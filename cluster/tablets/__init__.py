"""Replicas: a storage tablet over a replicated log.

    replica        one replica: opening, the calls of its consensus, alterations, work
    layout         a replica's view of its table in one version: schema, codec, partition
    leader_writes  writes at the leader                reads         reads of rows, views for scans
    exactly_once   recorded results of clients' calls  replica_log   the replicated log as the tablet sees it
    transactions   prepared writes and their outcomes         stages        progress of the opening
    large_parts    prepared writes of several log entries
    superblock     DIR/replica: description and state  bootstrap     copying a replica to another server
    health         errors, and the state that follows  damage        confirmation of damaged files
    checksum       sum of rows, compared between replicas            statistics  for planners

The life of a replica: `replica.Replica.create` writes its files, or `bootstrap.copy_replica` copies them from another
server. `replica.Replica.open` opens the tablet and joins its consensus. Committed entries arrive by
`replica.Replica.apply`; as leader it serves writes (`leader_writes`) and reads (`reads`). Removal leaves a tombstone,
the superblock with the peer's term and vote.
"""
