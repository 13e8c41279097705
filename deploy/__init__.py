"""Putting it on machines: command line, configuration, node assembly, doctor, tasks."""
