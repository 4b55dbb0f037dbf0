"""Projections of the users' own: who runs them, rebuilds them and reads their rows."""
