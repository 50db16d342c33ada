"""Decisions of a job's driver that need no Spark: its checkpoint, its pace, and when it stops."""
