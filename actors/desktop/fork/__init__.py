"""Fork points: a live desktop kept as a picture of its memory, and clones of it."""
