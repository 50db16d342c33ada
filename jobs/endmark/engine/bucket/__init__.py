"""The task of one bucket: it sees packed rows only, and owns one hash share of all state."""
