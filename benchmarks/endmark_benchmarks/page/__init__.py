"""Tables and pictures of docs/bench.md, from the files of `benchmarks/results`."""
