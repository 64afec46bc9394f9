"""Metrics of verdicts somebody already has."""
