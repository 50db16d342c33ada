"""The cost model of the lookup: what `endmark plan` and the dashboard predict with it."""
