"""A short phrase learned on a judge."""
