"""Reference swap."""
