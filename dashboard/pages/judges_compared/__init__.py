"""The page Compare judges."""
