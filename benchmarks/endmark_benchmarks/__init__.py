"""Measurements against other ways to do the same: one recorded input, in turn, answers counted and hashed."""
