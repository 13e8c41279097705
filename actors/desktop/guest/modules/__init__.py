"""Modules that programs inside a desktop may import."""
