"""The built-in policy: points at elements of the screen by the words of the instruction."""
