"""Finds the values that promises and progress rule out, and the output punctuations that follow."""
