"""Queries of the Nexmark benchmark: its generator with promises, on frames, beside Spark's own operators."""
