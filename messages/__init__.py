"""What is said: data that passes between actors, how it is encoded, and how it is kept."""
