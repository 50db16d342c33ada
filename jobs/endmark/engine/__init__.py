"""The engine takes Arrow and returns Arrow. It runs in Spark's tasks, but never imports pyspark."""
