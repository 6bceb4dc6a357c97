"""The messages of the protocol, without I/O.

frontend   what clients send: one class per message, and how their bytes are read
reader     bytes in, messages out, with a limit for each kind
replies    what the server sends, as bytes
startup    from the first byte to the end of authentication: messages in, events out
"""
