"""Results of other load generators, each read as its makers write it."""
