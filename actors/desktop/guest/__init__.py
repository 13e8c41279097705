"""What runs inside a desktop, with the standard library alone."""
