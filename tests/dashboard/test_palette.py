"""One palette for what Streamlit draws and what Plotly draws."""

import tomllib
from pathlib import Path

from engine.plots.theme import PALETTE, ROLES

ROOT = Path(__file__).parents[2]


def test_streamlit_and_plotly_share_one_palette():
    theme = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]
    for mode in ("light", "dark"):
        assert tuple(theme[mode]["chartCategoricalColors"]) == PALETTE[mode]
        assert theme[mode]["backgroundColor"] == ROLES[mode]["background"]
        assert theme[mode]["textColor"] == ROLES[mode]["ink"]
