"""Programs that are made ready to run: environments of scripts, builds from sources."""
