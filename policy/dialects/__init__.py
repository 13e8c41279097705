"""What model families write for an action, one family a file."""
