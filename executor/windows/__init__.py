"""Window functions: partitions and frames of rows, and the values of calls over them."""
