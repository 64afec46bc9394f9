"""The page Label."""
