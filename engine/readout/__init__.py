"""Numpy only: re-reduces stored arrays for the sliders; no model, no torch."""
