"""What `trilane.client.requests`, `.httpx` and `.httpx2` are made of."""
