"""Changes of rows that are there: one algebra, in memory and in files."""
