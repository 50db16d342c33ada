"""What a job and its sidecar tell each other, in the ops database and in the control topic."""
