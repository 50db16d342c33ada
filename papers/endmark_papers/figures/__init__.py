"""The figures of the papers: each one measured anew, drawn, and held beside the paper's claim."""
