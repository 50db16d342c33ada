"""One module for each measurement; it writes a file of `benchmarks/results`."""
