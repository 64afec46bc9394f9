"""Responses as a table, and in numbers."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.data import counts
from engine.data.dataset import Dataset
from engine.figures.text import count
from engine.spreadsheet import safe_csv

MOST_ROWS = 500
"""Rows sent to the browser; a table of a hundred thousand texts would make every click slow."""
_COLUMNS = {
    "response_id": "Response",
    "item_id": "Item",
    "system": "System",
    "human_score": "Human score",
    "quality": "Quality",
    "text": "Text of the response",
    "context": "Context",
    "group": "Group",
}


def preview(dataset: Dataset, *, key: str) -> None:
    """The responses beside their contexts; a table shows text as text."""
    table = joined(dataset)
    shown = table.head(MOST_ROWS)
    if len(shown) < len(table):
        ui.note(f"The first {count(len(shown))} of {count(len(table))} responses; the CSV has all.")
    st.dataframe(
        shown,
        key=key,
        hide_index=True,
        height=min(420, 38 + 35 * len(shown)),
        column_config={
            "Text of the response": st.column_config.TextColumn(width="large"),
            "Context": st.column_config.TextColumn(width="medium"),
        },
        alt=f"Table of {counts(dataset)}",
        placeholder="",
    )
    ui.download("Data (CSV)", lambda: safe_csv(table), f"{key}.csv", "text/csv", key=f"{key}_csv")


def joined(dataset: Dataset) -> pd.DataFrame:
    """One row per response with its item's context, columns that hold nothing left out."""
    table = dataset.responses.merge(dataset.items[["item_id", "context", "group"]], on="item_id", how="left")
    table = table[[c for c in _COLUMNS if c in table.columns and table[c].notna().any()]]
    return table.rename(columns=_COLUMNS)
