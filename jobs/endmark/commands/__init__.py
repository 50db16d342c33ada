"""The commands that `cli.py` does not have itself, by what they are about, and what all have in common."""
