"""What every part rests on: errors, settings, tables, JSON, files, the call cache."""
