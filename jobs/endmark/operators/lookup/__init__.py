"""The lookup join: stream rows wait until a read of the relation answers them. No Spark."""
