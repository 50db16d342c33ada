"""The decisions of a job's driver that need no Spark: its checkpoint, its pace, when it stops and why."""
