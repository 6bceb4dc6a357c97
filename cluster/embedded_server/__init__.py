"""The owner of a store answers the cluster's protocol for it, so that other processes reach the store, too.

To a client it is a cluster of one master and one tablet server, whose tablets have one replica:

    server          the life of the server
    catalog         the methods of a master
    tablets         the store's tablets as replicas that always lead, served by `tserver.tablet_service`
    call_results    exactly once: results of calls, kept for retries
    joint_writes    batches of clients over several tablets, each all or nothing
    loads           bulk loads of clients
    owner_record    DIR/owner, by which other processes find the server
    process         `nyala serve`: a process that does nothing else
"""
