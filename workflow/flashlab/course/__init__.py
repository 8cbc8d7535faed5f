"""Files of the course's script: read, and assigned to runs."""
