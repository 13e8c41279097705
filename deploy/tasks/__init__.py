"""The bundled task set: seeded templates over real applications, scored by OSWorld's functions."""
