"""The papers: their algorithms as printed, a row at a time, and their experiments."""
