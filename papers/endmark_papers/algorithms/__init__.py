"""The algorithms of the papers, one row at a time, to read and to compare with."""
