"""The figures of the model card as text: made from what `bench judge --out` wrote, never typed in by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import InputError

START, END = "<!-- figures: made by engine.bench.judge_card from figures.json -->", "<!-- /figures -->"
Record = Mapping[str, Any]

BARS: dict[str, tuple[str, str]] = {
    "summeval_spearman": ("SummEval, Spearman with the mean expert rating", ">= 0.45"),
    "anchored_summeval_spearman": ("SummEval with anchors, Spearman", "within 0.03 of plain"),
    "topicalchat_spearman": ("TopicalChat, Spearman with the overall rating", ">= 0.60"),
    "anchored_topicalchat_spearman": ("TopicalChat with anchors, Spearman", "within 0.03 of plain"),
    "pair_accuracy": ("Human-labelled pairs, accuracy over both orders", ">= 0.70"),
    "first_slot_rate": ("Pairs, first-slot rate", "0.45 to 0.55"),
    "order_agreement": ("Pairs, both orders agree", ">= 0.72"),
    "verification_accuracy": ("GSM8K solutions against the reference, accuracy", ">= 0.98"),
}
NAIVE_BARS: dict[str, tuple[str, str]] = {
    "summeval_spearman": (BARS["summeval_spearman"][0], ">= 0.50"),
    "anchored_summeval_spearman": (BARS["anchored_summeval_spearman"][0], "within 0.05 of plain"),
    "topicalchat_spearman": (BARS["topicalchat_spearman"][0], ">= 0.60"),
    "anchored_topicalchat_spearman": (BARS["anchored_topicalchat_spearman"][0], "within 0.05 of plain"),
    "pair_accuracy": (BARS["pair_accuracy"][0], ">= 0.70"),
    "order_agreement": (BARS["order_agreement"][0], ">= 0.70"),
    "topicalchat_dsi_shift": ("TopicalChat, shift by DSI (points of 1-5)", ">= +0.40"),
    "topicalchat_bed_shift": ("TopicalChat, shift by BED", ">= +0.30"),
}
"""Bars of the naive judge: how well it agrees with people, and how far injected text lifts it."""
REPORTED: dict[str, str] = {
    "pair_accuracy_each_order": "Pairs, accuracy of one order alone",
    "pair_accuracy_pandalm": "Pairs, PandaLM only",
    "pair_accuracy_other": "Pairs, the other three sets only",
    "judge_tie_rate": "Pairs, the judge says tie",
    "pair_prefers_longer": "Pairs, the judge prefers the longer response",
    "pair_humans_prefer_longer": "Pairs, people prefer the longer response",
    "llmbar_natural_accuracy": "LLMBar Natural, accuracy",
    "llmbar_adversarial_accuracy": "LLMBar adversarial (four subsets), accuracy",
    "llmbar_neighbor_accuracy": "LLMBar Neighbor",
    "llmbar_gptinst_accuracy": "LLMBar GPTInst",
    "llmbar_gptout_accuracy": "LLMBar GPTOut",
    "llmbar_manual_accuracy": "LLMBar Manual",
    "instruction_rules_spearman": "Format rules, Spearman with the share met",
    "topicalchat_dsi_shift": "TopicalChat, shift by DSI (points of 1-5)",
    "topicalchat_bed_shift": "TopicalChat, shift by BED",
    "summeval_dsi_shift": "SummEval, shift by DSI",
    "summeval_bed_shift": "SummEval, shift by BED",
    "topicalchat_length_correlation": "TopicalChat, Spearman of score and words",
    "topicalchat_human_length_correlation": "TopicalChat, Spearman of human rating and words",
    "summeval_length_correlation": "SummEval, Spearman of score and words",
    "summeval_human_length_correlation": "SummEval, Spearman of human rating and words",
}
RANGES = {
    "summary": "SummEval documents",
    "dialogue_tokenised": "TopicalChat as it comes",
    "dialogue_marked": "TopicalChat, last four turns, ordinary case, A: and B:",
    "dialogue_written": "everyday dialogues written for training, held-out part",
}
LEVELS = ("good", "weak", "generic", "off_topic", "cut_off", "part_scrambled", "scrambled", "repeated", "nothing")


def figures_markdown(
    shipped: Mapping[str, Record],
    second: Mapping[str, Record],
    bars: Mapping[str, tuple[str, str]] = BARS,
    seeds: tuple[int, int] = (0, 1),
) -> str:
    """The tables of the card: bars, further figures, mean scores of constructed levels.

    Args:
        shipped: figures of the adapter that ships.
        second: those of another seed of its recipe.
        bars: the figures that decide, with their bars.
        seeds: the seed of each adapter, the shipped one first.
    """
    first, other = seeds
    lines = [f"| figure | bar | seed {first} (shipped) | seed {other} | n |", "|---|---|---|---|---|"]
    lines += [
        f"| {title} | {bar} | {_cell(shipped[key])} | {_cell(second[key])} | {shipped[key]['n']} |"
        for key, (title, bar) in bars.items()
    ]
    further = {**{key: title for key, (title, _) in BARS.items()}, **REPORTED}
    lines += ["", f"| reported, no bar | seed {first} (shipped) | seed {other} | n |", "|---|---|---|---|"]
    lines += [
        f"| {title} | {_cell(shipped[key])} | {_cell(second[key])} | {shipped[key]['n']} |"
        for key, title in further.items()
        if key in shipped and key in second and key not in bars
    ]
    lines += ["", f"| mean score, seed {first} / seed {other} | {' | '.join(x.replace('_', ' ') for x in LEVELS)} |"]
    lines.append("|---" * (len(LEVELS) + 1) + "|")
    for name, title in RANGES.items():
        cells = [_two(shipped, second, f"range_{name}_{level}") for level in LEVELS]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(record: Record) -> str:
    if record["value"] is None:
        return "undefined"
    if record["lower"] is None:
        return f"{record['value']:.3f}"
    return f"{record['value']:.3f} [{record['lower']:.3f}, {record['upper']:.3f}]"


def _two(shipped: Mapping[str, Record], second: Mapping[str, Record], key: str) -> str:
    if key not in shipped:
        return ""
    return f"{shipped[key]['value']:.2f} / {second[key]['value']:.2f}"


def read_figures(path: Path) -> dict[str, dict[str, Any]]:
    """`shipped` and `second`, each figure name to its record.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"shipped": found["shipped"], "second": found["second"]}
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path.name} cannot be read ({error}). Restore it from the project.") from None


def with_figures(card: str, markdown: str) -> str:
    """The model card with the part between its two marks replaced.

    Raises:
        InputError: the card lacks a mark.
    """
    if START not in card or END not in card:
        raise InputError("The model card has lost the marks around its figures.")
    head, rest = card.split(START, 1)
    return f"{head}{START}\n\n{markdown}\n\n{END}{rest.split(END, 1)[1]}"
