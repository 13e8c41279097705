"""The templates, one application a file."""
