"""Metrics: verdict tables in, numbers with intervals out."""
