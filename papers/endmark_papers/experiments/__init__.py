"""The papers' experiments, counted instead of timed, so that every machine finds the same figures."""
