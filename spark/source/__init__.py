"""The data source: what `spark.read.format("nyala")` reads."""
