"""Messages.

methods          the methods of servers        joint_methods, load_methods, maintenance_methods, repair_methods   others
envelope         head and version              errors          errors across the wire
plain            tables, scans and statistics as plain data    value_count    limit on values, before decoding
"""
