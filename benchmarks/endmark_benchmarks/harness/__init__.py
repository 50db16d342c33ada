"""Runs contenders in turns, compares their answers and notes where a figure comes from."""
