"""The figure of a check-up, at any thresholds, from what its probes measured."""

from __future__ import annotations

from engine.figures.checkup import plot_checkup, prepare_checkup
from engine.gallery.base import Dial, Entry, Shown, Source, Values, has_table
from engine.metrics.checkup import CARDS, ProbeCard, decide, forest_rows

STUDY = "checkup"
_LEAST, _MOST = 0.001, 0.999


def _dial(card: ProbeCard) -> Dial:
    def default(source: Source) -> float:
        return float((source.config.get("thresholds") or {}).get(card.name, card.threshold))

    title = f"{card.title.lower()} {card.side}"
    return Dial(card.name, title, "number", default, lambda _: _LEAST, lambda _: _MOST)


def _probes(source: Source, at: Values) -> Shown:
    decisions = decide(source.table("checkup"), {name: float(value) for name, value in at.items()})
    made = prepare_checkup(forest_rows(decisions))
    facts = () if made["n"].notna().any() else ("n = 0, no probe was asked, so no interval",)
    return Shown(made, {"note": source.origin}, facts)


ENTRIES = (
    Entry(
        STUDY, "probes", "Which probes does the judge pass?", _probes,
        lambda p, more, mode: plot_checkup(p, mode=mode, note=more["note"]), tuple(_dial(card) for card in CARDS),
        has_table("checkup", "no probe has been asked yet."),
    ),
)  # fmt: skip
