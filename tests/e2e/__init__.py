"""The native binary as a user meets it, against servers that are not ours."""
