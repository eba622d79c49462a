"""Experiments: arms, blocks of runs, the statistics of a comparison."""
