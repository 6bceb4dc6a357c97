"""By this package's name Spark finds the data source of nyala unasked."""
