"""Drafts of pipeline files: sampled records and master tables, and what they suggest."""
