"""Suffixes learned on the judge inside the study `cap` (AdvSuffix, paper 001, section 5.1), as attacks of the run.

A phrase is learned on responses of the training contexts, on the undefended judge and, as a stronger arm of its own,
through CAP; it is judged on the evaluation contexts as every other attack. It is saved as one of the user's phrases.
Each word is noted in the run as it is found, so that a stopped run goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from engine.attacks.registry import parse_attack
from engine.attacks.saved_phrases import MAX_NAME, SavedPhrase, save_phrase
from engine.attacks.suffix_search import BEST_PROBES, PROBES, Dials, SuffixSearch
from engine.attacks.suffix_search import Progress as Found
from engine.attacks.suffix_vocabulary import vocabulary_of
from engine.data.dataset import Dataset
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.errors import InputError
from engine.judges.base import Judge, Request
from engine.runs import LEARNED, RunFolder, now
from engine.schema import NONE
from engine.studies.cap_config import CAP, CapConfig, Contexts, Progress
from engine.studies.requests import build_requests
from engine.studies.suffix_targets import PromptCutter, inner_judge, spread_over_items


def with_deflation(attacks: Sequence[str]) -> tuple[str, ...]:
    """The attacks, and for each that has a direction the one that lowers a score: a rival's, under attack."""
    out: dict[str, None] = {}
    for name in attacks:
        out[name] = None
        base, at, place = name.partition("@")
        lowered = f"{base}-deflate{at}{place}"
        try:
            out[parse_attack(lowered).name] = None
        except InputError:
            continue  # it has no direction, or is the deflating one already
    return tuple(out)


def learning_work(config: CapConfig) -> int:
    """Prompts that the searches compute, which `Progress` counts."""
    searches = bool(config.learned_words) * (1 + (config.learned_through_cap and CAP in config.defenses))
    each = 1 + config.learned_words * (config.learned_candidates + PROBES + BEST_PROBES)
    return searches * each * config.learned_prompts


def learn_suffixes(
    config: CapConfig,
    contexts: Contexts,
    dataset: Dataset,
    judge: Judge,
    anchors: Mapping[str, Mapping[str, Anchors]],
    run: RunFolder,
    progress: Progress,
) -> tuple[str, ...]:
    """Search, save and note each phrase; returns the names of the attacks.

    Args:
        config: how many words, candidates and training prompts; 0 words learns nothing.
        contexts: whose training side is learned on.
        dataset: has the responses of the training contexts.
        judge: undefended.
        anchors: by arm and item, for the phrase learned through CAP.
        run: its manifest gets the phrases under `learned`, and holds the words that a stopped run had found.
        progress: told of every prompt computed.

    Raises:
        InputError: the judge is no white box, or the training contexts have no response, or none has anchors that a
            phrase could be learned through.
    """
    if not config.learned_words:
        return ()
    training = {r.item_id for r in contexts.training}
    responses = [r for r in build_requests(dataset) if r.item_id in training]
    judges: dict[str, Judge] = {NONE: judge}
    asked = {NONE: spread_over_items(responses, config.learned_prompts)}
    if config.learned_through_cap and CAP in config.defenses:
        free = {item: one._replace(tokens=0, passes=0.0, seconds=0.0) for item, one in anchors[CAP].items()}
        judges[CAP] = AnchoredJudge(judge, CAP, GivenAnchors(CAP, free))
        # where the tutor wrote no steered text there is no prompt to learn on
        read = [r for r in responses if r.item_id in free and not free[r.item_id].unread]
        if not read:
            raise InputError(
                f"None of the {len(training)} training contexts has both steered anchors, so no phrase can be learned "
                "through CAP. Leave learned_through_cap out, or use more training contexts."
            )
        asked[CAP] = spread_over_items(read, config.learned_prompts)
    part = learning_work(config) // len(judges)
    notes = _Notes(run, inner_judge(judge).fingerprint)
    for arm, defended in judges.items():
        found = _search(config, defended, asked[arm], progress.part(part), part, notes, arm)
        name = phrase_of(run.run_id, arm)
        inner = inner_judge(defended)
        save_phrase(
            SavedPhrase(
                name, found.words, found.values, inner.spec, inner.fingerprint, "pointwise", arm, dataset.name, now(),
                run.run_id,
            )
        )  # fmt: skip
        notes.write(arm, found, attack=parse_attack(f"suffix:{name}:{len(found.words)}").name)
    return tuple(str(one["attack"]) for one in run.manifest()[LEARNED])


class _Notes:
    """The phrases in the run's manifest, by arm; those of another judge are dropped."""

    def __init__(self, run: RunFolder, fingerprint: str) -> None:
        self._run, self._fingerprint = run, fingerprint
        before = run.manifest().get(LEARNED, [])
        self._found = {one["defense"]: one for one in before if one.get("fingerprint") == fingerprint}
        self._queries = {arm: int(one["queries"]) for arm, one in self._found.items()}

    def words(self, arm: str) -> list[str]:
        """What a stopped run had found."""
        return [str(word) for word in self._found.get(arm, {}).get("words", [])]

    def write(self, arm: str, found: Found, attack: str = "") -> None:
        """Note the phrase so far; without the attack's name it is unfinished."""
        queries = found.queries + self._queries.get(arm, 0)
        self._found[arm] = {
            "attack": attack, "defense": arm, "words": list(found.words), "values": [float(v) for v in found.values],
            "queries": queries, "fingerprint": self._fingerprint,
        }  # fmt: skip
        self._run.update_manifest(**{LEARNED: list(self._found.values())})


def phrase_of(run_id: str, arm: str) -> str:
    """What a phrase of a run is called."""
    tail = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
    tail = re.sub(r"^cap-\d{8}-\d{6}-", "", tail)  # of an id that was made here the random part is enough
    return f"cap-{'through-' if arm == CAP else ''}{tail}"[:MAX_NAME].rstrip("-")


def _search(
    config: CapConfig,
    judge: Judge,
    asked: Sequence[Request],
    look: Callable[[int, int], None],
    total: int,
    notes: _Notes,
    arm: str,
) -> Found:
    """One phrase, noted word by word."""
    loaded = inner_judge(judge).loaded
    vocabulary = vocabulary_of(loaded.tokenizer)
    cutter = PromptCutter(judge, asked, vocabulary)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done = min(done + more, total)
        look(done, total)

    def told(at: Found) -> None:
        if at.chosen and at.words:
            notes.write(arm, at)

    search = SuffixSearch(loaded, cutter.labels, cutter.targets, vocabulary, cutter.fits)
    dials = Dials(config.learned_words, config.learned_candidates, seed=config.seed)
    return search.run(dials, told, count, notes.words(arm))
