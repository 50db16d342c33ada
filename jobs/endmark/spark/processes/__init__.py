"""The Python processes that Spark starts, and the classes that its JVM loads: both start fast."""
