"""What an experiment is: its file, its forms, arms and workload, and the checks on them."""
