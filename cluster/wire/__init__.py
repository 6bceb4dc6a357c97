"""Communication between processes, over Arrow Flight: methods, errors, batches, streams.

    server        serves methods, scans and peer streams on one port
    calls/        the caller's side: channels, streams of small calls, deferred replies
    messages/     methods, their envelope, errors, plain forms of tables and scans
    rows/         rows of writes, batches and streams of scans
    peer_streams  messages between servers          peers        their form
    security/     TLS, roles, audit log, limits on received bytes
    process/      start, signals and end of a server process
    addresses     "host:port"
    client_clock  the clock of a client             faults       injected faults for tests

The life of a call: `calls.rpc.Channel.call` packs the request into an envelope and sends it, a small one on the shared
stream (`calls.call_streams`). `server.RpcServer` checks limits and role, decodes it and calls the method's handler. The
reply, or the error, comes back in an envelope, and the channel returns or raises it.
"""

import os

# gRPC writes a line for every failed handshake to standard error, which is for a server's own log, in JSON, and for a
# command's own messages. It reads this variable when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
