"""Rows in transit.

write_rows      rows of writes                     untrusted_rows   checks of a client's rows, before allocation
batches         batches of scans as messages       small_batches    batches within a reply
scan_streams    streams of scans, both ends
"""
