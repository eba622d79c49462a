"""The site that `make site` builds of docs/, and the pictures on it."""
