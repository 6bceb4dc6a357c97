"""Messages.

methods          the methods of servers        joint_, load_, maintenance_, namespace_, repair_methods   others
envelope         head and version              errors          errors across the wire
plain            tables, scans and statistics as plain data    value_count    limit on values, before decoding
"""
