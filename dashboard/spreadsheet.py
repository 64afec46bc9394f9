"""CSV that is safe to open in a spreadsheet; the engine has it, for its own exports."""

from engine.spreadsheet import safe_cell, safe_csv

__all__ = ["safe_cell", "safe_csv"]
