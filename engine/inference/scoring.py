"""Label probabilities: the probability that what follows a prompt spells each label.

Everything is read from next-token logits at the end of token sequences: each prompt, and where a label has no
one-token spelling each prompt with every distinct beginning of a spelling behind it (a spelling's probability is the
product of its tokens'). Three ways to those logits, with the same numbers:

* shared (`engine.inference.prefix`): common beginnings of the sequences are computed once; taken where it saves enough;
* plain: sequences padded on the right, without a mask. Under causal attention a real token never sees what follows
  it, so the padding cannot matter and the fast causal kernel applies. (Left padding gave NaN under SDPA.) Positions
  count from 0 in every row for the same reason;
* an encoder-decoder reads the prompt once, masked, and its decoder each beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelError
from engine.inference.batching import batches, halving, last_logits, on_device, pad_right, token_budget
from engine.inference.chat import ENCODING
from engine.inference.loading import LoadedModel
from engine.inference.prefix import Lexical, Take, Tokens, can_share, lexical, read_shared, trie_tokens

# The answers offered to a judge and the token sequences that write them.

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

    @cached_property
    def spellings(self) -> tuple[tuple[Spelling, ...], ...]:
        """For each label, the token sequences that count as that answer."""
        return self.sequences or tuple(tuple((i,) for i in ids) for ids in self.ids)

    @cached_property
    def beginnings(self) -> tuple[Spelling, ...]:
        """Tokens after the prompt when the model is asked: none, then each proper prefix."""
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
        with ENCODING:
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


AfterBatch = Callable[[list[int], NDArray[np.float64]], None]
"""Gets the indices of the prompts finished since the last call and their rows (n, L); both are empty after a pass
that only computed shared beginnings. May raise to stop."""
Way = Literal["plain", "shared", "encoder-decoder"]
WORTH_SHARING = 1.1
"""Tokens of all sequences over those of their trie, from which sharing was faster on two cores (it takes masked
attention and more, smaller passes)."""


def label_probabilities(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    labels: LabelTokens,
    after_batch: AfterBatch | None = None,
    batch_tokens: int | None = None,
    way: Way | None = None,
) -> NDArray[np.float64]:
    """Probability that what follows the prompt spells each label.

    A spelling that begins another one ("1" and "10") counts only where the longer one does not follow, so that
    the answers exclude one another. Equal prompts are asked once.

    Args:
        loaded: a causal language model or an encoder-decoder.
        prompts: token ids, each non-empty and within the model's window.
        labels: L labels with their spellings.
        after_batch: called after each pass.
        batch_tokens: most padded tokens in a batch; by default set by the device.
        way: computation of the logits; by default `way_for` chooses.

    Returns:
        Array (N, L) of raw probabilities; a row sums to the coverage, at most 1.
    """
    asked: dict[Tokens, list[int]] = {}
    for i, prompt in enumerate(prompts):
        asked.setdefault(tuple(prompt), []).append(i)
    places = list(asked.values())
    out = np.full((len(prompts), len(labels.labels)), np.nan)
    table = _Table(loaded.spec, len(asked), labels)

    def take(found: list[int], logits: Any) -> None:
        done = table.add(found, logits)
        rows = table.rows(done)
        every = [i for place in done for i in places[place]]
        out[every] = np.repeat(rows, [len(places[place]) for place in done], axis=0)
        if after_batch:
            after_batch(every, out[every])

    unique = list(asked)
    sequences = [(*prompt, *beginning) for prompt in unique for beginning in labels.beginnings]
    budget = batch_tokens or token_budget(loaded.device)
    ordered = None if way or loaded.kind == "encoder-decoder" else lexical(sequences)
    chosen = way or way_for(loaded, sequences, ordered)
    if chosen == "encoder-decoder":
        _read_encoded(loaded, unique, labels.beginnings, take, budget)
    elif chosen == "shared":
        read_shared(loaded, sequences, take, budget, ordered=ordered)
    else:
        _read_plain(loaded, sequences, take, budget)
    return out


def way_for(loaded: LoadedModel, sequences: Sequence[Tokens], ordered: Lexical | None = None) -> Way:
    """The way that is likely to be fastest."""
    if loaded.kind == "encoder-decoder":
        return "encoder-decoder"
    if len(sequences) < 2 or sum(map(len, sequences)) < WORTH_SHARING * trie_tokens(sequences, ordered):
        return "plain"
    return "shared" if can_share(loaded) else "plain"


class _Table:
    """Probabilities of the tokens that spell the labels, filled in as sequences are read.

    A sequence is a prompt and one of the labels' beginnings; its index is prompt * len(beginnings) + beginning.
    """

    def __init__(self, spec: str, prompts: int, labels: LabelTokens) -> None:
        self._spec, self._labels = spec, labels
        self._every = [spelling for spellings in labels.spellings for spelling in spellings]
        self._beginnings = labels.beginnings
        self._wanted = [
            sorted({s[len(b)] for s in self._every if s[: len(b)] == b and len(s) > len(b)}) for b in self._beginnings
        ]
        pairs = [(b, token) for b, tokens in zip(self._beginnings, self._wanted, strict=True) for token in tokens]
        self._column = {pair: k for k, pair in enumerate(pairs)}
        self._found = np.full((prompts, len(pairs)), np.nan)
        self._missing = np.full(prompts, len(self._beginnings))

    def add(self, sequences: list[int], logits: Any) -> list[int]:
        """Take in logits (n, V); returns the prompts that are complete now."""
        if not sequences:
            return []
        p = logits.softmax(dim=-1)
        prompt, beginning = np.divmod(np.asarray(sequences), len(self._beginnings))
        kept = {}
        for b in np.unique(beginning).tolist():
            own = np.flatnonzero(beginning == b)
            kept[b] = prompt[own], p[own.tolist()][:, self._wanted[b]].double().cpu().numpy()
        for b, (rows, values) in kept.items():
            columns = [self._column[self._beginnings[b], token] for token in self._wanted[b]]
            self._found[rows[:, None], columns] = values
            self._missing[rows] -= 1
        return [int(i) for i in dict.fromkeys(prompt.tolist()) if self._missing[i] == 0]

    def rows(self, prompts: list[int]) -> NDArray[np.float64]:
        """Raw probabilities (n, L) of complete prompts."""
        found = self._found[prompts]
        reached: dict[Spelling, NDArray[np.float64]] = {}
        for spelling in self._every:
            product = np.ones(len(prompts))
            for k, token in enumerate(spelling):
                product = product * found[:, self._column[spelling[:k], token]]
            reached[spelling] = product
        none = np.zeros(len(prompts))
        alone = {s: reached[s] - sum((reached[t] for t in _continued(s, self._every)), none) for s in self._every}
        columns = [sum((alone[s] for s in spellings), none) for spellings in self._labels.spellings]
        rows: NDArray[np.float64] = np.stack(columns, axis=1).clip(min=0.0)  # rounding may leave -1e-9
        if not np.isfinite(rows).all():
            raise ModelError(f"{self._spec} gave NaN probabilities; its weights or precision are broken.")
        return rows


def _continued(spelling: Spelling, every: Sequence[Spelling]) -> list[Spelling]:
    """The shortest other spellings that go on where this one ends."""
    longer = [t for t in every if len(t) > len(spelling) and t[: len(spelling)] == spelling]
    return [t for t in longer if not any(len(u) < len(t) and t[: len(u)] == u for u in longer)]


def _read_plain(loaded: LoadedModel, sequences: Sequence[Tokens], take: Take, budget: int) -> None:
    """Every sequence whole, padded on the right."""
    import torch

    def run(batch: Sequence[int]) -> None:
        rows = [sequences[i] for i in batch]
        # Any id but the pad token serves as filler: transformers warns about a pad token without a mask.
        with torch.inference_mode():
            ids, _ = pad_right(rows, rows[0][0], loaded.device)
            last = torch.tensor([len(row) - 1 for row in rows], device=loaded.device)  # (B,)
            with on_device(loaded.device):
                logits = last_logits(loaded.model, ids, last, use_cache=False)[0]
        take(list(batch), logits)

    for batch in batches([len(s) for s in sequences], budget):
        halving(run, batch, loaded.device)


def _read_encoded(
    loaded: LoadedModel, prompts: Sequence[Tokens], beginnings: Sequence[Spelling], take: Take, budget: int
) -> None:
    """Every prompt through the encoder once; the decoder is read after its start token and each beginning."""
    import torch

    start = loaded.model.config.decoder_start_token_id

    def run(batch: Sequence[int]) -> None:
        read = []
        with torch.inference_mode():
            ids, mask = pad_right([prompts[i] for i in batch], prompts[batch[0]][0], loaded.device)
            states = loaded.model.get_encoder()(input_ids=ids, attention_mask=mask)
            for beginning in beginnings:
                decoder_ids = torch.tensor([[start, *beginning]] * len(batch), device=loaded.device)
                out = loaded.model(
                    encoder_outputs=states, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False
                )
                read.append(out.logits[:, -1].float())
        take([i * len(beginnings) + k for k in range(len(beginnings)) for i in batch], torch.cat(read))

    reach = len(beginnings[-1])
    for batch in batches([len(p) + reach for p in prompts], budget):
        halving(run, batch, loaded.device)
