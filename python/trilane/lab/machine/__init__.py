"""This machine: its facts, its fitness to measure, and what it spent."""
