"""From a recipe to token ids: pools in their shares, encoded once, kept beside a run for the seeds to share."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.inference.chat import encode_text, encode_texts, render_ids
from engine.judges.cards import Card
from engine.training.config import TrainingConfig
from engine.training.examples import Asker, Unit, thinned
from engine.training.llama import shared_start
from engine.training.material import Material
from engine.training.pools import DIALOGUE_POOLS, INSTRUCTION_POOLS, PAIR_POOLS, SUMMARY_POOLS, VERIFIER_POOLS, Pool

POOLS: dict[str, Pool] = {
    **SUMMARY_POOLS,
    **DIALOGUE_POOLS,
    **INSTRUCTION_POOLS,
    **PAIR_POOLS,
    **VERIFIER_POOLS,
}


@dataclass(frozen=True)
class Encoded:
    """One example as numbers.

    Attributes:
        ids: token ids of the whole prompt.
        labels: one token id per answer, as the judge would write it.
        target: one probability per answer.
        mirror: for the second order of a pair, the positions of `labels` seen from the first; empty otherwise.
    """

    pool: str
    ids: tuple[int, ...]
    labels: tuple[int, ...]
    target: tuple[float, ...]
    mirror: tuple[int, ...] = ()


EncodedUnit = tuple[Encoded, ...]
"""One prompt, the two orders of a pair, or several prompts that share a long beginning."""
SHARED_FROM = 256
"""Prompts that agree in this many tokens at the start, and are not much longer, are computed together."""
GROUP = 8


def compose(config: TrainingConfig, material: Material, asker: Asker) -> list[Unit]:
    """All units of a recipe, pool after pool; each pass draws its random edits anew.

    Raises:
        InputError: the mix names an unknown pool.
    """
    if unknown := set(config.mix) - set(POOLS):
        raise InputError(f"The mix names the pool {sorted(unknown)[0]!r}; allowed: {', '.join(POOLS)}.")
    units: list[Unit] = []
    for name, passes in config.mix.items():
        for i in range(int(np.ceil(passes))):
            rng = np.random.default_rng([config.data_seed, zlib.crc32(name.encode()), i])
            made = list(POOLS[name](material, asker, rng))
            units += thinned(made, min(1.0, passes - i), rng)
    return units


def encode(
    units: Sequence[Unit], cards: Mapping[str, Card], tokenizer: Any, max_tokens: int
) -> tuple[list[EncodedUnit], Counter[str]]:
    """Token ids of every unit, and how many units of each pool were too long and left out.

    Raises:
        InputError: a card has a label that is not one token of this tokenizer.
    """
    labels = {name: tuple(_one_token(tokenizer, label) for label in card.labels) for name, card in cards.items()}
    mirror = {name: _mirror(card) for name, card in cards.items()}
    frames = {name: _frame(tokenizer, card) for name, card in cards.items()}
    texts = [one.user for unit in units for one in unit]
    bodies = iter(encode_texts(tokenizer, texts))
    kept: list[EncodedUnit] = []
    left_out: Counter[str] = Counter()
    for unit in units:
        made = tuple(
            Encoded(
                pool=one.pool,
                ids=(*frames[one.card][0], *next(bodies), *frames[one.card][1]),
                labels=labels[one.card],
                target=one.target,
                mirror=mirror[one.card] if k else (),
            )
            for k, one in enumerate(unit)
        )
        if max(len(one.ids) for one in made) > max_tokens:
            left_out[made[0].pool] += 1
        else:
            kept.append(made)
    return kept, left_out


def _frame(tokenizer: Any, card: Card) -> tuple[list[int], list[int]]:
    """Text that the chat template puts before and after every user message of a card.

    The message is encoded apart from the template (`render_ids`), so the frame does not depend on it; rendering it
    once and encoding all messages together is many times faster than rendering each.
    """
    empty, filled = render_ids(tokenizer, card.system, ""), render_ids(tokenizer, card.system, "x")
    start = next((k for k, (a, b) in enumerate(zip(empty, filled, strict=False)) if a != b), len(empty))
    return empty[:start], empty[start:]


def _one_token(tokenizer: Any, label: str) -> int:
    ids = encode_text(tokenizer, label)
    if len(ids) != 1:
        raise InputError(f"The label {label!r} is {len(ids)} tokens; an adapter is trained on one-token answers.")
    return int(ids[0])


def _mirror(card: Card) -> tuple[int, ...]:
    """Where each label of a pairwise card stands when the responses change places: first, second, tie."""
    return (1, 0, *range(2, len(card.labels))) if card.protocol is Protocol.PAIRWISE else ()


def order_of(units: Sequence[EncodedUnit], batch: int, seed: int) -> list[list[int]]:
    """Batches of unit numbers in the order of one seed; about `batch` prompts each, the last may be smaller."""
    shuffled: NDArray[np.int64] = np.random.default_rng(seed).permutation(len(units))
    batches: list[list[int]] = [[]]
    filled = 0
    for number in shuffled.tolist():
        if filled + len(units[number]) > batch and batches[-1]:
            batches.append([])
            filled = 0
        batches[-1].append(number)
        filled += len(units[number])
    return batches


def grouped(units: Sequence[EncodedUnit], seed: int) -> list[EncodedUnit]:
    """The same examples, those about one long text in groups of at most eight, drawn at random."""
    loose: dict[tuple[int, ...], list[EncodedUnit]] = {}
    out: list[EncodedUnit] = []
    for unit in units:
        if len(unit) == 1 and len(unit[0].ids) > SHARED_FROM:
            loose.setdefault(unit[0].ids[:SHARED_FROM], []).append(unit)
        else:
            out.append(unit)
    rng = np.random.default_rng(seed)
    for same in loose.values():
        order = rng.permutation(len(same)).tolist()
        for start in range(0, len(same), GROUP):
            out.append(tuple(same[i][0] for i in order[start : start + GROUP]))
    return out


def is_pair(unit: EncodedUnit) -> bool:
    """True where a unit is the two orders of a pair."""
    return len(unit) == 2 and bool(unit[1].mirror)


def rows_of(unit: EncodedUnit) -> list[list[Sequence[int]]]:
    """The groups of prompts that a unit makes: a pair is two of one prompt, anything else is one group."""
    prompts: list[Sequence[int]] = [one.ids for one in unit]
    return [[p] for p in prompts] if is_pair(unit) else [prompts]


def micro_batches(units: Sequence[EncodedUnit], budget: int) -> list[list[EncodedUnit]]:
    """Units of one step in parts of similar row length, each at most `budget` padded tokens (or one unit).

    Groups and single prompts come in different parts, since only single prompts take the fast causal attention.
    """
    parts: list[list[EncodedUnit]] = []
    for shared in (False, True):
        own = [u for u in units if (len(u) > 1 and not is_pair(u)) is shared]
        filled: list[list[EncodedUnit]] = []
        rows = 0
        for unit in sorted(own, key=_row_length):
            rows += len(rows_of(unit))
            if filled and _row_length(unit) * rows <= budget:
                filled[-1].append(unit)
            else:
                filled.append([unit])
                rows = len(rows_of(unit))
        parts += filled
    return parts


def _row_length(unit: EncodedUnit) -> int:
    """Tokens of the unit's longest row."""
    return max(sum(map(len, prompts)) - shared_start(prompts) * (len(prompts) - 1) for prompts in rows_of(unit))


Report = Callable[[str], None]
