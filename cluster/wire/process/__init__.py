"""A server process: start, signals, end; fork.

`server_process` starts a server, reports its address, and waits for a signal; `ending` drains it and ends the process.
`server_threads` ends the process if a thread that must not end fails; `forking` refuses servers and clients in
children; `pandas_import` keeps PyArrow from importing pandas.
"""
