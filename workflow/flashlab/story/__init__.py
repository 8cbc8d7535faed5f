"""What a report says, in its order: a story for each benchmark, told in `templates/story/`."""
