"""Attack grid: every attack under every defense."""
