"""Dead letters: finding them in their table, and sending them once more."""
