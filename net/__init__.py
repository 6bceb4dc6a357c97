"""The network: one reactor per server process, protocols without I/O, and connections of clients.

    reactor            the event loop: one thread, its sockets, jobs and timers
    listener           accepts connections, limits their number and closes stalled ones
    connection         one socket of the reactor: reads, TLS, writes from any thread; the interface of protocols
    frames             nyala's own framing: bytes in, frames out
    frame_server       the server's end of framed connections: calls, replies, messages
    dialing            opens a connection, blocking: TCP, TLS, preamble, greeting
    call_table         the calls in progress of a client's connection, without I/O
    client_connection  the client's end, which the waiting threads read themselves
    loop_connection    the client's end on an asyncio event loop
    tls                TLS without I/O: encrypted bytes in, plain bytes out
    turn_batching      per-thread batching of what a unit of work sends
    addresses          "host:port"

The life of a call: `client_connection.ClientConnection.begin` writes a CALL frame. The server's `reactor.Reactor` finds
the socket readable, `connection.Connection` reads it and decrypts, `frame_server.FramedClient` parses the frame
(`frames.FrameReader`) and passes the body to the server above. The reply comes back at once, or later from any thread
(`frame_server.FramedClient.reply`), and the thread that waits for it, or another one, reads it
(`client_connection.PendingCall.answer`).

The reactor knows nothing of frames: any class with the methods of `connection.Protocol` can be listened for.
"""
