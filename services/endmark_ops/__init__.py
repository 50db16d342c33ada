"""The ops sidecar: health, metrics and a dashboard over HTTP, of what the job tells. No Spark."""
