"""What stays on disk: atomic files, the journal of an experiment, the index, past runs."""
