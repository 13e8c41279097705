"""The trainer: one fit at a time, and the answer to a fit that was done before."""
