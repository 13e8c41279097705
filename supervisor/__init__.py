"""Who keeps actors alive: child specs, strategies, restart intensity, leases."""
