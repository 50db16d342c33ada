"""Workloads: the auction with its bad records, those of the other examples, and the streams of the papers."""
