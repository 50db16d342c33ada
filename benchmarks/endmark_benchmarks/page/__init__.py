"""Tables and pictures of docs/bench.md and docs/bench, from the files of `benchmarks/results`."""
