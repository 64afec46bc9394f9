"""Judge card."""
