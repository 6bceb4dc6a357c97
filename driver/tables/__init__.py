"""Tables without SQL: rows in, scans, scan tokens and changes out."""
