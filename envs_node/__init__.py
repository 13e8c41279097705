"""Finds and keeps verified, distinct successes of computer-use agents, and fits a policy on them."""

__version__ = "0.1.0"
