"""The master table of a lookup join: the check that it is fit, its pages, and reads of it, without Spark."""
