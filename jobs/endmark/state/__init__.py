"""Operator state as immutable, key-sorted segments. No Spark."""
