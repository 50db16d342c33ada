"""Aggregates, and the last stages of a query: groups by another key than the join's, and groups of groups."""
