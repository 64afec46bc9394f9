"""Label probabilities: one forward pass per batch of prompts, read at each prompt's last token.

Prompts are padded on the right and no attention mask is passed: under causal attention a real token never sees
what follows it, so the padding cannot matter and the fast causal kernel applies. (Left padding gave NaN under
SDPA.) Positions count from 0 in every row for the same reason. An encoder-decoder reads the prompt once, masked,
and is scored at its decoder's first step.

Where a label has no one-token spelling, every spelling of every label is scored as a sequence: the product of
its tokens' conditional probabilities, one more pass for each distinct beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.models.batching import batches, last_logits, pad_right, token_budget
from engine.models.loader import LoadedModel

Spelling = tuple[int, ...]
"""Token ids that write one answer."""


@dataclass(frozen=True)
class LabelTokens:
    """The answers offered and how each may be written.

    Attributes:
        labels: the answers, L of them.
        ids: for each label, the ids of its one-token spellings.
        sequences: for each label, all its spellings as token sequences, where one label at least has no
            one-token spelling; empty otherwise.
    """

    labels: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    sequences: tuple[tuple[Spelling, ...], ...] = ()

    @property
    def spellings(self) -> tuple[tuple[Spelling, ...], ...]:
        """For each label, the token sequences that count as that answer."""
        return self.sequences or tuple(tuple((i,) for i in ids) for ids in self.ids)

    @property
    def beginnings(self) -> tuple[Spelling, ...]:
        """What must stand after the prompt when the model is asked: nothing, then each proper prefix."""
        found = {s[:k] for spellings in self.spellings for s in spellings for k in range(len(s))}
        return tuple(sorted(found, key=lambda s: (len(s), s)))

    @property
    def reach(self) -> int:
        """Tokens that scoring may put after a prompt."""
        return len(self.beginnings[-1])


def label_tokens(tokenizer: object, labels: Sequence[str], spellings: Sequence[Sequence[str]] = ()) -> LabelTokens:
    """Collect the spellings of each label: as given, with a leading space, and the card's own.

    Where every label has a one-token spelling, only those count (a single pass reads them all).

    Args:
        tokenizer: anything with a Hugging Face `encode`.
        labels: the answers, for example 1 to 5.
        spellings: further spellings per label (`Yes` for `YES`), aligned with `labels`; empty for none.

    Raises:
        ModelError: two labels are written alike, or a label cannot be written at all.
    """
    encode = tokenizer.encode  # type: ignore[attr-defined]
    unknown = getattr(tokenizer, "unk_token_id", None)
    single: list[tuple[int, ...]] = []
    whole: list[tuple[Spelling, ...]] = []
    for i, label in enumerate(labels):
        forms = [label, f" {label}", *(spellings[i] if spellings else ())]
        ids = [tuple(encode(form, add_special_tokens=False)) for form in forms]
        ids = [one for one in ids if unknown not in one]
        whole.append(tuple(dict.fromkeys(one for one in ids if one)))
        ones = [one[0] for one in ids if len(one) == 1] or _pieces(tokenizer, label)
        single.append(tuple(dict.fromkeys(ones)))
    by_sequence = not all(single)
    made = LabelTokens(tuple(labels), tuple(single), tuple(whole) if by_sequence else ())
    if empty := [label for label, of_label in zip(labels, made.spellings, strict=True) if not of_label]:
        raise ModelError(f"The judge's vocabulary cannot write the label {empty[0]!r}. Choose other labels.")
    flat = [spelling for of_label in made.spellings for spelling in of_label]
    if len(flat) != len(set(flat)):
        what = "spelling" if by_sequence else "token"
        raise ModelError(f"Two of the labels {', '.join(labels)} share a {what}; they cannot be told apart.")
    return made


def _pieces(tokenizer: object, label: str) -> list[int]:
    """Vocabulary entries that are the label itself, for tokenizers that put a space before whatever they encode."""
    look_up, back = (getattr(tokenizer, n, None) for n in ("convert_tokens_to_ids", "convert_ids_to_tokens"))
    if not look_up or not back:
        return []
    found = [(piece, look_up(piece)) for piece in (label, f"▁{label}")]
    return [i for piece, i in found if i is not None and back(i) == piece]


def label_probabilities(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    labels: LabelTokens,
    after_batch: Callable[[list[int], NDArray[np.float64]], None] | None = None,
    batch_tokens: int | None = None,
) -> NDArray[np.float64]:
    """Probability that what follows the prompt spells each label.

    A spelling that begins another one ("1" and "10") counts only where the longer one does not follow, so that
    the answers exclude one another.

    Args:
        loaded: a causal language model or an encoder-decoder.
        prompts: token ids, each non-empty and within the model's window.
        labels: L labels with their spellings.
        after_batch: called with the indices and rows (batch, L) of each finished batch; may raise to stop.
        batch_tokens: most padded tokens in a batch; by default set by the device.

    Returns:
        Array (N, L) of raw probabilities; a row sums to the coverage, at most 1.
    """
    import torch

    budget = batch_tokens or token_budget(loaded.device)
    out = np.full((len(prompts), len(labels.labels)), np.nan)
    for batch in batches([len(p) + labels.reach for p in prompts], budget):
        with torch.inference_mode():
            rows = _score_batch(loaded, [prompts[i] for i in batch], labels)
        out[batch] = rows
        if after_batch:
            after_batch(batch, rows)
    return out


def _score_batch(loaded: LoadedModel, prompts: Sequence[Sequence[int]], labels: LabelTokens) -> NDArray[np.float64]:
    every = [spelling for spellings in labels.spellings for spelling in spellings]
    wanted = {b: sorted({s[len(b)] for s in every if s[: len(b)] == b and len(s) > len(b)}) for b in labels.beginnings}
    after = _next_probabilities(loaded, prompts, wanted, filler=every[0][0])
    reached: dict[Spelling, NDArray[np.float64]] = {}
    for spelling in every:
        product = np.ones(len(prompts))
        for k, token in enumerate(spelling):
            product = product * after[spelling[:k], token]
        reached[spelling] = product
    alone = {s: reached[s] - sum((reached[t] for t in _continued(s, every)), np.zeros(len(prompts))) for s in every}
    columns = [sum((alone[s] for s in spellings), np.zeros(len(prompts))) for spellings in labels.spellings]
    rows: NDArray[np.float64] = np.stack(columns, axis=1).clip(min=0.0)  # (B, L); rounding may leave -1e-9
    if not np.isfinite(rows).all():
        raise ModelError(f"{loaded.spec} gave NaN probabilities; its weights or precision are broken.")
    return rows


def _continued(spelling: Spelling, every: Sequence[Spelling]) -> list[Spelling]:
    """The shortest other spellings that go on where this one ends."""
    longer = [t for t in every if len(t) > len(spelling) and t[: len(spelling)] == spelling]
    return [t for t in longer if not any(len(u) < len(t) and t[: len(u)] == u for u in longer)]


def _next_probabilities(
    loaded: LoadedModel, prompts: Sequence[Sequence[int]], wanted: dict[Spelling, list[int]], filler: int
) -> dict[tuple[Spelling, int], NDArray[np.float64]]:
    """For each beginning and wanted token, its probability (B,) after prompt and beginning."""
    found: dict[tuple[Spelling, int], NDArray[np.float64]] = {}
    encoded = _encode(loaded, prompts, filler) if loaded.kind == "encoder-decoder" else None
    for beginning, tokens in wanted.items():
        logits = (
            _decoder_logits(loaded, encoded, beginning)
            if encoded
            else _causal_logits(loaded, [[*p, *beginning] for p in prompts], filler)
        )
        kept = logits.softmax(dim=-1)[:, tokens].double().cpu().numpy()  # (B, len(tokens))
        found.update({(beginning, token): kept[:, k] for k, token in enumerate(tokens)})
    return found


def _causal_logits(loaded: LoadedModel, rows: Sequence[Sequence[int]], filler: int) -> Any:
    import torch

    # Any id but the pad token serves as filler: transformers warns about a pad token without a mask.
    ids, _ = pad_right(rows, filler, loaded.device)
    last = torch.tensor([len(row) - 1 for row in rows], device=loaded.device)  # (B,)
    return last_logits(loaded.model, ids, last, use_cache=False)[0]


def _encode(loaded: LoadedModel, prompts: Sequence[Sequence[int]], filler: int) -> Any:
    ids, mask = pad_right(prompts, filler, loaded.device)
    return loaded.model.get_encoder()(input_ids=ids, attention_mask=mask), mask


def _decoder_logits(loaded: LoadedModel, encoded: Any, beginning: Spelling) -> Any:
    import torch

    states, mask = encoded
    start = [loaded.model.config.decoder_start_token_id, *beginning]
    decoder_ids = torch.tensor([start] * len(mask), device=loaded.device)
    out = loaded.model(encoder_outputs=states, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False)
    return out.logits[:, -1].float()
