"""The operators: Arrow columns in and out, state in segments. No Spark."""
