"""The ops database: one module for each table that job and sidecar share."""
