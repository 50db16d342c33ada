"""The steps that rows go through, in the order in which a pipeline may have them."""
