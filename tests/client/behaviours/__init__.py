"""What every interface of the client does over every version of HTTP: one table (`table.py`)."""
