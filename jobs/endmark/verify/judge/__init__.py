"""Judges records and rows: dead letters, violations, and rows that steps leave out."""
