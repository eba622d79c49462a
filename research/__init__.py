"""Simulations and proofs of what the documents claim; they import Trilane as its users do.

`make research` runs all of them, `make research ARGS='comparisons --tables 20'` one; README.md says
what each shows, how long it takes and what it printed.
"""
