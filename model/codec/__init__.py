"""Values and tables as plain data that msgpack can carry."""
