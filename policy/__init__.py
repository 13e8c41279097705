"""How the next action is chosen: pure functions, but for the model backends in `models/`."""
