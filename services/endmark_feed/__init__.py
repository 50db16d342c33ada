"""Workloads for topics: the example pipelines' records, also bad ones, and the papers' streams."""
