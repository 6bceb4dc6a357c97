"""Communication between processes: methods, errors and peer messages in frames (`net`), scans over Arrow Flight.

    server        serves methods and peer messages on one port      flight_port   the port for scans
    server_limits   its limits on concurrent work                   handlers, rounds   kinds of handlers; reactor rounds
    calls/        the caller's side: channels and their connections; deferred replies
    messages/     methods, their envelope, errors, plain forms of tables and scans
    rows/         rows of writes, batches and streams of scans
    peer_transport  messages between servers        peers         their form
    call_context  a call as its handler sees it
    gate          a count of running work, with a limit
    security/     TLS, roles, audit log, limits on received bytes
    process/      start, signals and end of a server process
    client_clock  the clock of a client             faults       injected faults for tests

The life of a call: `calls.rpc.Channel.call` packs the request into an envelope and sends it in a frame.
`server.RpcServer` checks limits and role, decodes it and calls the method's handler, in the reactor's thread if that
need not wait. The reply, or the error, comes back in an envelope, and the channel returns or raises it.
"""

import os

# gRPC writes a line for every failed handshake to standard error, which is for a server's own log, in JSON, and for a
# command's own messages. It reads this variable when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
