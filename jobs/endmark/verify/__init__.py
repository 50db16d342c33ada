"""The independent recomputation: what should be in the Delta tables, from Kafka and R alone, and what is.

It shares no code with the engine; the work is DuckDB's. `verification` puts the steps in order. Its modules
by the question that they answer:

- what is there to read: `consume`, `formats`, `xml`, `debezium`, `relation`, `written_tables`
- what is each record: `classify`, `reasons`, `control`, `conditions`, `closing_rule`, `patterns`, `spans`,
  `order`, `closed_keys`, `idle_partitions`, `broken_promises`
- what are the results: `join_sides`, `join`, `expected_tables`
- what are the groups: `measures`, `running_groups`
- what is announced: `output_punctuations`
- is it the same: `compare`, `breach`, `report`
"""
