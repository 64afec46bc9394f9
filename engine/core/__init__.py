"""Base of every part: errors, settings, tables, JSON, files, the call cache."""
