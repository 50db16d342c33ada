"""Compares the tables that the job has written with the expected ones."""
