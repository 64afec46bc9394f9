"""Studies: one per question; a frozen config in, result tables out. They compose the stages."""
