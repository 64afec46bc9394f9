"""CAP: steering, anchors and their defense."""
