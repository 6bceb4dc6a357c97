"""Messages.

methods          the methods of servers
                 others: joint_, load_, maintenance_, membership_, namespace_, repair_, user_methods
envelope         head and version              errors          errors across the wire
plain            tables, scans and statistics as plain data    value_count    limit on values, before decoding
access_plain     users and grants as plain data
"""
