"""Measurements against other toolkits and against size; never part of the timed tests."""
