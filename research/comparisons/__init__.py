"""How often the rule of comparisons claims what is not there, and finds what is."""
