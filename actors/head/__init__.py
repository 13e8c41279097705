"""The front door of a run: who takes part, and which run is on."""
