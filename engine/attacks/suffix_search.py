"""AdvSuffix: a universal phrase learned word by word on a white-box judge (eqs. 1 and 2 of CAP, paper 001).

Greedy as in Raina et al. 2024: the word that raises the mean objective over the training prompts most is kept, then
the next one is sought behind it. They try every word of a vocabulary; here the gradient at the new word's place ranks
the vocabulary, and only the best are tried. A first-order estimate from one word says little about words far away,
so gradients at several words are averaged: at random ones for the first half of the candidates, at the best ones of
that half for the second.

The candidates of a round differ in one token behind a shared beginning, so `label_probabilities` computes each
prompt's beginning once for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelError
from engine.inference.chat import encode_text, encode_texts
from engine.inference.gradients import require_white_box, slot_gradients, vocabulary_scores
from engine.inference.loading import LoadedModel
from engine.inference.scoring import LabelTokens, Way, label_probabilities

# Words of a phrase: those that are one token of the judge after a space.

_SPACES = "Ġ▁"
_WORD = re.compile(r"[A-Za-z][a-z]{2,}")
_PROBE = "x"


class Vocabulary(NamedTuple):
    """V words and the token of each; a phrase is written with single spaces."""

    words: tuple[str, ...]
    tokens: tuple[int, ...]


def vocabulary_of(tokenizer: Any, only: Sequence[str] = ()) -> Vocabulary:
    """Words of at least three Latin letters (the first may be a capital) that the tokenizer writes as one token.

    Args:
        tokenizer: a fast Hugging Face tokenizer.
        only: take these words alone, in place of all; those of several tokens are left out.

    Raises:
        ModelError: there are none.
    """
    if only:
        candidates = list(dict.fromkeys(only))
    else:
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        candidates = [p[1:] for p in pieces if p and p[0] in _SPACES and _WORD.fullmatch(p[1:])]
    # Encoded behind another word: some tokenizers treat the beginning of a text differently.
    before = encode_text(tokenizer, _PROBE)
    rows = zip(candidates, encode_texts(tokenizer, [f"{_PROBE} {word}" for word in candidates]), strict=True)
    tokens = {word: row[-1] for word, row in rows if row[:-1] == before and len(row) == len(before) + 1}
    if not tokens:
        raise ModelError(
            "The judge's tokenizer writes no usable word as a single token after a space, and a phrase is searched "
            "word by word among such tokens. Use a judge with a subword tokenizer."
        )
    return Vocabulary(tuple(tokens), tuple(tokens.values()))


Tokens = tuple[int, ...]
MIN_COVERAGE = 0.5
"""As for a verdict: below it the answer tokens hold less than the rest, and the prompt counts as unread."""
ROUNDS = 2
PROBES, BEST_PROBES = 16, 8
"""Words whose gradients are averaged in the first round, drawn at random, and in the second, the best so far."""


@dataclass(frozen=True)
class Target:
    """One training prompt, cut where the phrase stands.

    Attributes:
        head: token ids before the phrase.
        tail: token ids after it.
        clean: token ids of the whole prompt without a phrase; where the response ends in white space, its last
            tokens are not those of `head`.
        values: worth of each of the L labels; the objective is its expectation.
    """

    head: Tokens
    tail: Tokens
    clean: Tokens
    values: tuple[float, ...]


class Tried(NamedTuple):
    """One candidate.

    Attributes:
        step: place of the word in the phrase, from 1.
        word: the candidate.
        value: mean objective over the training prompts; NaN where a prompt was unread.
        n_unread: prompts whose answer tokens held too little probability.
    """

    step: int
    word: str
    value: float
    n_unread: int


@dataclass(frozen=True)
class Progress:
    """State of a search after a round.

    Attributes:
        words: the phrase so far, the best candidate of an unfinished step left out.
        values: the mean objective without the phrase and after each word.
        tried: the candidates of this round.
        queries: forward passes so far, gradients (counted as three) included.
        chosen: this round ended its step.
    """

    words: tuple[str, ...]
    values: tuple[float, ...]
    tried: tuple[Tried, ...]
    queries: int
    chosen: bool


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search.

    Attributes:
        words: length of the phrase, 1 to 5.
        candidates: words tried at each step.
        lower: look for the phrase that lowers the objective.
        guided: gradients choose the candidates; else they are drawn at random, the control for the filter.
        seed: of the random draws.
    """

    words: int
    candidates: int
    lower: bool = False
    guided: bool = True
    seed: int = 0


OnProgress = Callable[[Progress], None]
Count = Callable[[int], None]
"""Called with the number of prompts computed since the last call; may raise to stop."""


class SuffixSearch:
    """A greedy search on one model.

    Args:
        loaded: the white-box judge's model.
        labels: the answers scored, each of one token.
        targets: the training prompts.
        vocabulary: words that a phrase may be made of.
        fits: true where a phrase of these words is read as the same tokens inside every prompt.

    Raises:
        ModelError: the model or its labels allow no gradient.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        labels: LabelTokens,
        targets: Sequence[Target],
        vocabulary: Vocabulary,
        fits: Callable[[Sequence[str]], bool],
    ) -> None:
        require_white_box(loaded, labels)
        self.loaded, self.labels, self.targets = loaded, labels, list(targets)
        self._vocabulary, self._fits = vocabulary, fits
        self._token = dict(zip(vocabulary.words, vocabulary.tokens, strict=True))
        self._worth = np.array([t.values for t in targets])  # (N, L)
        self.queries = 0

    def run(
        self, settings: SearchSettings, progress: OnProgress, count: Count = lambda _: None, start: Sequence[str] = ()
    ) -> Progress:
        """Search the phrase.

        Args:
            settings: of this search.
            progress: called after each round.
            count: called as prompts are computed.
            start: words of an earlier search; this one goes on behind them.

        Raises:
            ModelError: no candidate can be used, since each leaves a prompt unread or is read as other tokens.
        """
        words = list(start[: settings.words])
        values = [float(self.evaluate([words[:k]], count)[0][0]) for k in range(len(words) + 1)]
        state = Progress(tuple(words), tuple(values), (), self.queries, True)
        progress(state)
        while len(words) < settings.words:
            tried: list[Tried] = []
            for k in range(ROUNDS):
                quota = settings.candidates * (k + 1) // ROUNDS - len(tried)
                probes = [t.word for t in _best(tried, settings)[:BEST_PROBES]] or self._drawn(
                    PROBES, (settings.seed, len(words))
                )
                chosen = self._candidates(words, probes, quota, {t.word for t in tried}, settings, count)
                means, unread = self.evaluate([[*words, w] for w in chosen], count)
                new = [
                    Tried(len(words) + 1, w, float(v), int(n)) for w, v, n in zip(chosen, means, unread, strict=True)
                ]
                tried += new
                if k + 1 < ROUNDS:
                    progress(Progress(tuple(words), tuple(values), tuple(new), self.queries, False))
            best = next((t for t in _best(tried, settings) if self._fits([*words, t.word])), None)
            if best is None or np.isnan(best.value):
                raise ModelError(
                    f"None of {len(tried)} words can follow {' '.join(words)!r}: each leaves a training prompt unread "
                    "or is read as other tokens. Try more candidates, or a card whose answer follows at once."
                )
            words.append(best.word)
            values.append(best.value)
            state = Progress(tuple(words), tuple(values), tuple(new), self.queries, True)
            progress(state)
        return state

    def evaluate(
        self, phrases: Sequence[Sequence[str]], count: Count = lambda _: None, way: Way | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Mean objective of each phrase over the training prompts, and the prompts left unread.

        Returns:
            Arrays (P,): means, NaN where a prompt was unread; and counts.
        """
        prompts = [self.prompt(t, words) for words in phrases for t in self.targets]
        rows = label_probabilities(
            self.loaded, prompts, self.labels, lambda batch, _: count(len(batch)), way=way
        )  # (P * N, L)
        self.queries += len(prompts)
        shape = (len(phrases), len(self.targets))
        coverage = rows.sum(axis=1)
        expected = (rows * np.tile(self._worth, (len(phrases), 1))).sum(axis=1) / np.maximum(coverage, 1e-12)
        expected[coverage < MIN_COVERAGE] = np.nan
        table = expected.reshape(shape)
        return table.mean(axis=1), np.isnan(table).sum(axis=1)

    def prompt(self, target: Target, words: Sequence[str]) -> Tokens:
        """A training prompt with the phrase in its place, if there is one."""
        return (*target.head, *self._ids(words), *target.tail) if words else target.clean

    def gradients(
        self, words: Sequence[str], probes: Sequence[str], count: Count = lambda _: None
    ) -> NDArray[np.float64]:
        """Gradients of the objective at the place behind `words`, (N * probes, d), probes of one prompt in a row."""
        pairs = [(t, probe) for t in self.targets for probe in probes]
        prompts = [self.prompt(t, [*words, probe]) for t, probe in pairs]
        slots = [len(t.head) + len(words) for t, _ in pairs]
        done = 0

        def tell(now: int) -> None:
            nonlocal done
            count(now - done)
            done = now

        worth = self._worth.repeat(len(probes), axis=0)
        gradients = slot_gradients(self.loaded, prompts, slots, self.labels, worth, tell)
        self.queries += 3 * len(prompts)  # a backward pass costs about two forward ones
        return gradients

    def _ids(self, words: Sequence[str]) -> Tokens:
        return tuple(self._token[w] for w in words)

    def _drawn(self, n: int, seed: tuple[int, ...], seen: set[str] | frozenset[str] = frozenset()) -> list[str]:
        """Random words of the vocabulary that were not seen; the same ones for the same seed."""
        order = np.random.default_rng(seed).permutation(len(self._vocabulary.words)).tolist()
        words = (self._vocabulary.words[i] for i in order)
        return [w for w, _ in zip((w for w in words if w not in seen), range(n), strict=False)]

    def _candidates(
        self,
        words: Sequence[str],
        probes: Sequence[str],
        quota: int,
        seen: set[str],
        settings: SearchSettings,
        count: Count,
    ) -> list[str]:
        """The `quota` untried words with the largest first-order gain at the place behind `words`."""
        if not settings.guided:
            return self._drawn(quota, (settings.seed, len(words), len(seen), 1), seen)
        direction = self.gradients(words, probes, count).mean(axis=0) * (-1 if settings.lower else 1)
        gains = vocabulary_scores(self.loaded, direction, self._vocabulary.tokens)
        order = np.argsort(-gains, kind="stable")
        ranked = (self._vocabulary.words[i] for i in order.tolist())
        return [w for w, _ in zip((w for w in ranked if w not in seen), range(quota), strict=False)]


def _best(tried: Sequence[Tried], settings: SearchSettings) -> list[Tried]:
    """The candidates, best first; those that left a prompt unread last."""
    sign = -1 if settings.lower else 1
    return sorted(tried, key=lambda t: (np.isnan(t.value), -sign * t.value))
