"""The second stage of a query: groups by another key than the join's."""
