"""Statistics of tables: sketches of rowsets and of values, ANALYZE."""
