"""The streams of the papers' experiments, as events or as Kafka topics. Each stream has a name."""
