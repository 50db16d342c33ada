"""Ways to do the same: endmark, Spark, Flink and DuckDB, each in a process of its own."""
