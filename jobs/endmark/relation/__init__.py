"""The master table of a lookup join: whether it is fit, its pages, reads of it. No Spark."""
