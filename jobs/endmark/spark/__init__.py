"""The pipeline on Spark Structured Streaming."""
