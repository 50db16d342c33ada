"""The ops sidecar: health, metrics and a dashboard over HTTP. Reads the ops database, holds no Spark."""
