"""The demo: the whole warehouse on one machine."""
