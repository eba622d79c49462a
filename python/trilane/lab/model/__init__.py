"""What the lab keeps, reads and prints, as types; and the JSON Schemas made of them."""
