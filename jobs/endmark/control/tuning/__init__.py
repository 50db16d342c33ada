"""Knobs that change while a job runs, by hand or by autotune."""
