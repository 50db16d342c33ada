"""The cost model of the lookup, by which `endmark plan` and the dashboard predict the yield of strategies."""
