"""Checks that the parts of a pipeline fit together, which refuse it with a message that names the field."""
