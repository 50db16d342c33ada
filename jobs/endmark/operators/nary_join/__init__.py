"""The inner join of any number of streams on one key."""
