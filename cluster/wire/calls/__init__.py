"""Calls between processes.

rpc                channels to servers: calls, and the begin of scans
server_connection  a channel's framed connections, opened when they are needed
flight_connection  a channel's connection of gRPC, for scans
deferred_replies   the server's side: replies for which no thread waits
"""
