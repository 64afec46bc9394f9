"""Rewriters by name, and arms of rewritten texts: a style, with its strength where that is not 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from engine.attacks.distractors import style_of
from engine.attacks.rewriting import ModelRewriter, Rewriter, RuleRewriter
from engine.core.errors import InputError
from engine.core.settings import Settings
from engine.defenses.writing import Writer, writer_for
from engine.inference.loading import LoadedModel, load_model
from engine.stats.arena import arm_parts
from engine.studies.api_writing import api_writer

RULES = "rules"


def parse_arm(arm: str) -> tuple[str, float]:
    """Style and strength of an arm.

    Raises:
        InputError: no such style, or the strength is no number above 0 and up to 1.
    """
    try:
        name, strength = arm_parts(arm)
    except ValueError:
        name, strength = arm.partition(":")[0], 0.0
    style_of(name)
    if not 0 < strength <= 1:
        raise InputError(f"The arm {arm!r} needs a strength above 0 and up to 1, for example {name}:0.5.")
    return name, strength


def make_rewriter(name: str, settings: Settings) -> Rewriter:
    """The rewriter of that name: `rules`, or a model's spec such as `bundled:base` or `api:MODEL`.

    Raises:
        InputError: the spec names no model.
    """
    if name == RULES:
        return RuleRewriter()
    kind = name.partition(":")[0]
    if kind not in {"bundled", "hf", "path", "api"}:
        raise InputError(
            f"{name!r} names no rewriter. Allowed: rules, bundled:base, hf:ORG/NAME, path:FOLDER, api:MODEL."
        )
    made = api_writer(name, settings) if kind == "api" else writer_for(lambda: _loaded(name, settings), settings.calls)
    writer: Writer = made

    def write(prompts: Sequence[tuple[str, str]], rooms: Sequence[int]) -> list[str]:
        """Prompts with room for replies of about one length are written together."""
        out = [""] * len(prompts)
        for room in sorted({_round_up(r) for r in rooms}):
            chosen = [i for i, r in enumerate(rooms) if _round_up(r) == room]
            found = writer.write([prompts[i][1] for i in chosen], room, lambda: None)
            for i, written in zip(chosen, found, strict=True):
                out[i] = written.text
        return out

    return ModelRewriter(write, name)


@lru_cache(maxsize=1)
def _loaded(name: str, settings: Settings) -> LoadedModel:
    return load_model(name, settings)


def _round_up(room: int) -> int:
    """To a multiple of 64, so that prompts of similar length share a batch."""
    return -(-room // 64) * 64
