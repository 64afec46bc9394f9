"""JudgeScope's engine: judges, attacks, defenses, measurements and figures, without a user interface."""

__version__ = "0.2.0"
