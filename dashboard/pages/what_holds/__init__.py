"""What holds."""
