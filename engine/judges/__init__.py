"""Judges: anything that turns a request into a verdict, local, planted or recorded."""
