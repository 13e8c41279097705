"""One branch on one desktop."""
