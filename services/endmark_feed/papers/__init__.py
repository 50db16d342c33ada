"""The streams of the papers' experiments, by name, as events or as Kafka topics."""
