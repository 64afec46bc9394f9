"""Defenses: a judge around a judge."""
