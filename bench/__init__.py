"""Trilane's CPU per request beside that of wrk, h2load, oha and a loop that parses nothing."""
