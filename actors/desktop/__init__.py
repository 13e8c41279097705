"""The desktop: an isolated machine with a screen, and the actor that owns it."""
