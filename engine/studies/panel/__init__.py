"""Panel: several judges of the same data, side by side and as one."""
