"""Operator state as immutable, key-sorted segments. No Spark and no I/O of its own."""
