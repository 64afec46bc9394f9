"""The model card prints what was measured, and the adapter beside it is the one that was measured."""

from __future__ import annotations

import pytest

from engine.bench.judge_card import BARS, END, NAIVE_BARS, REPORTED, START, figures_markdown, read_figures, with_figures
from engine.core.errors import InputError
from engine.core.settings import get_settings
from engine.training.__main__ import AS_THEY_CAME
from engine.training.config import read_config

RECORD = {"value": 0.5, "lower": 0.4, "upper": 0.6, "n": 10}
FIGURES = dict.fromkeys((*BARS, *REPORTED), RECORD) | {"range_summary_good": RECORD | {"lower": None, "upper": None}}


def test_the_table_has_every_figure_with_its_interval():
    text = figures_markdown(FIGURES, FIGURES)
    assert text.count("0.500 [0.400, 0.600]") == 2 * len({*BARS, *REPORTED})
    assert "0.50 / 0.50" in text


def test_only_the_part_between_the_marks_is_replaced():
    card = f"# Card\n{START}\nold\n{END}\nrest"
    assert with_figures(card, "new") == f"# Card\n{START}\n\nnew\n\n{END}\nrest"
    with pytest.raises(InputError, match="marks"):
        with_figures("# Card", "new")


@pytest.mark.parametrize(("name", "bars", "seeds"), [("judge", BARS, (0, 1)), ("naive", NAIVE_BARS, (1, 0))])
def test_the_model_card_prints_the_measured_figures(name, bars, seeds):
    folder = get_settings().assets / name
    figures = read_figures(folder / "figures.json")
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert with_figures(card, figures_markdown(figures["shipped"], figures["second"], bars, seeds)) == card


def test_the_naive_judge_saw_no_made_text():
    """Its recipe draws only on pools of texts as they came with their labels."""
    config = read_config(get_settings().assets / "training" / "naive.toml")
    assert set(config.mix) <= AS_THEY_CAME


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "figures.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"figures\.json"):
        read_figures(tmp_path / "figures.json")
