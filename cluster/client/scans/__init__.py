"""Scans of a cluster: one token per tablet, read from a replica.

scan_tokens      tokens of a scan                        token_scan    reading one token, with retries
encoded_spec     the encoded scan, shared by its tokens  stream_watch  liveness of servers of waiting streams
renamed_columns  scans of a table that was altered since
"""
