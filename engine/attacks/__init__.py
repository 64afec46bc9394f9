"""Attacks: edits of a response that try to move the judge without making the response better."""
