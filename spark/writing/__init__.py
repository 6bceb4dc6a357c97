"""Writing from Spark: staged by task, published once."""
