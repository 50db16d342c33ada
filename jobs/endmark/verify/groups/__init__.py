"""Makes the groups of aggregates by their definition."""
