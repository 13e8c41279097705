"""The verifier: asks OSWorld's checker whether a task is done on a desktop."""
