"""The independent recomputation of tables and published topics, from Kafka and R alone, and the comparison.

It shares no code with the engine, and DuckDB does the work. `verification` runs the steps in order. Each
module answers one of these questions:

- What is there to read? `consume`, `formats`, `xml`, `debezium`, `members`, `beside_value`, `relation`,
  `written_tables`
- What is the fate of each record? `classify`, `reasons`, `control`, `conditions`, `closing_rule`, `patterns`,
  `spans`, `order`, `closed_keys`, `forgotten_keys`, `idle_partitions`, `broken_promises`
- What are the results? `join_sides`, `join`, `derived`, `expected_tables`
- What are the groups? `measures`, `running_groups`
- Which keys are final, and what is announced? `final_keys`, `output_punctuations`,
  `announced_patterns`
- Are the tables the same? `compare`, `breach`, `report`
- Are the published topics the same? `published_records`, `published_topics`, `published_order`
"""
