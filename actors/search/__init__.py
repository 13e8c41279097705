"""One task's search."""
