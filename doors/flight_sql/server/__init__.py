"""Flight's calls, and what is around the sessions of clients.

handlers         the calls of Flight: commands and actions by name, to the session of the caller
calls            what is running: clients that have gone stop it, the server waits for it when it stops
sessions         the sessions by cookie, token, handle or connection; their number, and the end of idle ones
part_endpoints   tickets and locations of queries that several readers share
authentication   Basic authentication, bearer tokens, cookies: the headers of each call
server           listens, watches, shuts down
options          addresses, limits, and when a password and TLS are needed
"""
