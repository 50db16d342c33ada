"""The streams of the papers' experiments, found by their names, as events or as Kafka topics."""
