"""What the lab keeps and prints, as types: runs, comparisons, results."""
