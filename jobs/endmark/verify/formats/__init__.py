"""Reads the records of each wire format strictly and one at a time, without code of the job."""
