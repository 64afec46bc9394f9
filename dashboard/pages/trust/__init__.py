"""The page Trust."""
