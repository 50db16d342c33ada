"""Grouping that emits a group once, when it is closed."""
