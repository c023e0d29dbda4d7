"""Searching schedules: declared spaces, the model's ranking, measured confirmation, a store that survives anything."""
