"""The ops sidecar: a process without Spark that shows a job's health, metrics and dashboard over HTTP."""
