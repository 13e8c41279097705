"""Desktops on machines that already run OSWorld's server, driven over HTTP."""
