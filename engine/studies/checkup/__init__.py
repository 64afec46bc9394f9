"""Check-up: eleven probes with thresholds."""
