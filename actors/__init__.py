"""Who owns what: each actor owns one thing of the world and hears one message at a time."""
