"""The tests, and the lab they share."""
