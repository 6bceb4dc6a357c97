"""What travels between processes: methods, errors, batches, streams; Arrow Flight carries all of it."""
