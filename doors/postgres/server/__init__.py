"""The server of the protocol: sockets, threads, limits, passwords, shutdown.

server          listens, has the pool of threads and the clients by their process numbers, shuts down
client          one client: its bytes to messages, its messages to the pool, back-pressure, timeouts
authentication  SCRAM-SHA-256 with one password for the store
options         addresses, limits, and when a password and TLS are needed
"""
