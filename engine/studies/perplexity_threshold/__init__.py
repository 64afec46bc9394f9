"""Thresholds of the perplexity defense."""
