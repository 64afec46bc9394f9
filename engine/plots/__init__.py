"""Pieces of figures: theme, text, rows, export."""
