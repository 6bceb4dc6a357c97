"""The embedded server: serves the store of one process by the cluster's protocol, so that other processes reach it too.

To a client it is a cluster of one master and one tablet server, whose tablets have one replica:

    server          the life of the server
    catalog         the methods of a master
    tablets         the store's tablets as replicas that always lead, served by `tserver.tablet_service`
    call_results    exactly once: results of calls, kept for retries
    joint_writes    batches of clients over several tablets, each all or nothing
    loads           bulk loads of clients
    server_record   DIR/owner, by which other processes find the server
    process         `nyala serve`: a process that does nothing else

The life of a request: `wire.server.RpcServer` decodes it; `call_results.Calls` returns the recorded result of a retry;
`catalog`, `tablets`, `joint_writes` or `loads` calls the store as any other thread of the process would.
"""
