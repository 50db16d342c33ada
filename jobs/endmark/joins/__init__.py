"""The stream join and the lookup join, on whole columns. No Spark."""
