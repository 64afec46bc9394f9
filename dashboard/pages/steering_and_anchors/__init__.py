"""Steering and anchors."""
