"""What travels between processes: methods, errors, batches, streams; Arrow Flight carries all of it."""

import os

# gRPC writes of every handshake that fails to standard error, which is for a server's own log, in JSON, and for a
# command's own messages. It reads this when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
