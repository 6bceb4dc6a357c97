"""From a logical plan to Spark SQL."""
