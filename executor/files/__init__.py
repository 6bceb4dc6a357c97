"""Files as tables: looked at, scanned, copied from and written."""
