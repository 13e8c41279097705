"""The simulation: the real actors and supervisors under virtual time, and faults from one seed."""
