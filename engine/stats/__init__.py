"""Statistics shared by all studies."""
