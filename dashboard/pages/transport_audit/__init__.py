"""Transport audit."""
