"""Makes the results of the join by their definition, and the rows of the steps before and behind it."""
