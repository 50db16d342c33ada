"""Punctuations: what a stream promises about its future."""
