"""Files of the course's script: read, and told which run each is."""
