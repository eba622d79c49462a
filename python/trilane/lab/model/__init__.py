"""The records of the lab, and the JSON Schemas made of them."""
