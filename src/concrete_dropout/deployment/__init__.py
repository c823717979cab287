"""Trained networks as files that run without this package, with dropout left active."""
