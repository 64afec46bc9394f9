"""A report: figures and tables picked from runs, with captions and notes, saved and exported."""
