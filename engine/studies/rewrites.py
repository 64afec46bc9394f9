"""The texts of study `protocols`: every original and every rewriting, checked, in one table that the run keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from engine.attacks.distractors import style_of
from engine.attacks.rewriting import ContentReport, ModelRewriter, Rewriter, RuleRewriter
from engine.core.errors import InputError
from engine.core.schema import NONE, VARIANTS
from engine.core.settings import Settings
from engine.data.dataset import Dataset
from engine.defenses.writing import Writer, writer_for
from engine.inference.loading import LoadedModel, load_model
from engine.stats.arena import arm_parts
from engine.studies.api_writing import api_writer
from engine.training.checkers import check_rule, rule_met

# How many of an item's format rules a response fails: the severity of the ladder in paper 004, section 3.2.

_LEVEL = re.compile(r"(rules|severity)_(\d)")
RULES_PER_PROMPT = 3


def failed_rules(rules: object, text: str) -> list[str] | None:
    """The rules that a text fails, each by its number in the list and its name; None where the item has no rules.

    Args:
        rules: JSON list of `{"rule", "arguments"}`, under IFEval's names; missing where there are none.
        text: the response.

    Raises:
        InputError: the list cannot be read, names a rule there is no checker for, or gives one wrong arguments.
    """
    if not isinstance(rules, str) or not rules.strip():
        return None
    numbered = enumerate(_read(rules), start=1)
    return [f"{number} {name}" for number, (name, arguments) in numbered if not rule_met(name, arguments, text)]


def severity_by_name(quality: object) -> int | None:
    """The severity that a constructed level names: `severity_1`, or `rules_2` for two of three rules kept."""
    match = _LEVEL.fullmatch(quality) if isinstance(quality, str) else None
    if match is None:
        return None
    number = int(match.group(2))
    return number if match.group(1) == "severity" else RULES_PER_PROMPT - number


@lru_cache(maxsize=4096)
def _read(rules: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    try:
        listed = json.loads(rules)
        found = tuple((entry["rule"], entry.get("arguments") or {}) for entry in listed)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(
            f"The rules {rules[:80]!r} cannot be read. Write a JSON list such as "
            '[{"rule": "punctuation:no_comma", "arguments": {}}].'
        ) from None
    for name, arguments in found:
        check_rule(name, arguments)
    return found


RULES = "rules"
UNCHANGED = "the text did not change"


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


def variant_table(dataset: Dataset, arms: Sequence[str], rewriter: Rewriter, *, seed: int = 0) -> pd.DataFrame:
    """Originals (style `none`) and rewritings of every response that a system wrote.

    A rewriting is kept where the text changed and the content checks found nothing lost or added.

    Args:
        dataset: items and responses.
        arms: styles, each with its strength where that is not 1 (`assertiveness:0.5`).
        rewriter: what rewrites.
        seed: of the rewriter's chance.

    Raises:
        InputError: the data name fewer than two systems, a response has no system, or an arm cannot be read.
    """
    responses = dataset.responses
    unnamed = responses["system"].isna()
    if unnamed.any() or responses["system"].nunique() < 2:
        which = responses.loc[unnamed, "response_id"]
        why = f"response {which.iloc[0]!r} names none" if len(which) else "they name one"
        raise InputError(
            f"A leaderboard needs responses of at least two systems; in the data {dataset.name} {why}. Choose the "
            "column that says which system wrote a response."
        )
    rules = {str(item): rule for item, rule in zip(dataset.items["item_id"], dataset.items["rules"], strict=True)}
    texts = list(responses["text"])
    before = [
        failed_rules(rules.get(str(item)), str(text))
        for item, text in zip(responses["item_id"], responses["text"], strict=True)
    ]
    rows = [_row(r, NONE, 0.0, RULES, r.text, None, (failed, failed)) for r, failed in _with(responses, before)]
    for arm in arms:
        name, strength = parse_arm(arm)
        made = rewriter.rewrite(texts, style_of(name), strength=strength, seed=seed)
        for (r, failed), new in zip(_with(responses, before), made, strict=True):
            after = failed_rules(rules.get(r.item_id), new.text)
            rows.append(_row(r, arm, strength, rewriter.name, new.text, new.report, (failed, after)))
    return VARIANTS.conform(pd.DataFrame(rows))


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


def check_reused(variants: pd.DataFrame, dataset: Dataset, arms: Sequence[str]) -> pd.DataFrame:
    """Variants of an earlier run, if they are about the same texts and hold the arms asked for.

    Raises:
        InputError: a text differs, or an arm is missing.
    """
    originals = variants[variants["style"] == NONE].set_index("response_id")["text"]
    for row in dataset.responses.itertuples(index=False):
        if originals.get(row.response_id) != row.text:
            raise InputError(
                f"The earlier run's texts are not those of the data {dataset.name}: response {row.response_id!r} "
                "differs. Leave variants_of out, or name a run on this data."
            )
    if missing := [arm for arm in arms if arm not in set(variants["style"])]:
        raise InputError(f"The earlier run has no texts for {', '.join(missing)}.")
    wanted = variants["style"].isin([NONE, *arms]) & variants["response_id"].isin(dataset.responses["response_id"])
    return variants[wanted].reset_index(drop=True)


def _with(responses: pd.DataFrame, failed: list[list[str] | None]):  # type: ignore[no-untyped-def]  # noqa: ANN202 - rows have no type
    return list(zip(responses.itertuples(index=False), failed, strict=True))


def _row(  # type: ignore[no-untyped-def]
    r,  # noqa: ANN001 - a row of itertuples
    style: str,
    strength: float,
    rewriter: str,
    text: str,
    report: ContentReport | None,
    failed: tuple[list[str] | None, list[str] | None],
) -> dict[str, object]:
    """One row of `variants`; where the item has no rules, the severity is the level the response was made for."""
    severity = [severity_by_name(r.quality) if one is None else len(one) for one in failed]
    named = [None if one is None else "; ".join(one) for one in failed]
    reasons = list(report.reasons) if report else []
    if report and text == r.text:
        reasons.append(UNCHANGED)
    return {
        "response_id": r.response_id,
        "item_id": r.item_id,
        "system": r.system,
        "style": style,
        "strength": strength,
        "rewriter": rewriter,
        "text": text,
        "kept": int(not reasons),
        "reasons": "; ".join(reasons) or None,
        "length_ratio": report.length_ratio if report else 1.0,
        "severity": severity[0],
        "severity_after": severity[1],
        "failed": named[0],
        "failed_after": named[1],
    }


def _round_up(room: int) -> int:
    """To a multiple of 64, so that prompts of similar length share a batch."""
    return -(-room // 64) * 64
