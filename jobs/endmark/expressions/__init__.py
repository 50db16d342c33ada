"""SQL expressions of a pipeline file: conditions, derived columns, and derived times."""
