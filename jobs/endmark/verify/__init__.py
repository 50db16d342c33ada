"""The independent recomputation: what should be in the Delta tables, from Kafka and R alone, and what is.

Shares no code with the engine. The work is DuckDB's; each step is a module: `consume`, `classify`,
`relation`, `expect`, `actual`, `compare`, `report`, put in order by `run`.
"""
