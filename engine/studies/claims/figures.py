"""Figures of the study `claims`."""

from __future__ import annotations

from engine.studies.figure import FigureSpec

ENTRIES: tuple[FigureSpec, ...] = ()
