"""Values, predicates and tables as plain data, and plain data as bytes of msgpack."""
