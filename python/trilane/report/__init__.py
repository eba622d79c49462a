"""A comparison for people: on the terminal and as one HTML file."""
