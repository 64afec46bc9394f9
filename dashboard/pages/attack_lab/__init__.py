"""Attack lab."""
