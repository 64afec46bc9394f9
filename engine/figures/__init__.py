"""Figures: tables in, Plotly figures out. `prepare_*` shapes the table a reader may download, `plot_*` draws it."""
