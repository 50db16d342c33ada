"""Records and frames to packed rows, and packed rows to frames."""
