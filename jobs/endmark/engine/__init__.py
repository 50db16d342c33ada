"""The engine: Arrow in, Arrow out. It runs in Spark's tasks and never imports pyspark."""
