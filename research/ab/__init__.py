"""How often `trilane ab` is right on this machine."""
