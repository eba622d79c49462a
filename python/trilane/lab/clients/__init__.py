"""Clients under test: their environments, one run of each, and what is seen of it from outside."""
