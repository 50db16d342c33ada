"""The input that all contenders of a measurement read: streams, topics and relations, with their servers."""
