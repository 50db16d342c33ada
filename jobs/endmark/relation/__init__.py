"""The master table of a lookup join: its page directory and its pages. No Spark."""
