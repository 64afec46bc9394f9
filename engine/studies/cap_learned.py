"""Suffixes learned on the judge inside the study `cap` (AdvSuffix, paper 001, section 5.1), as attacks of the run.

A phrase is learned on responses of the training contexts, on the undefended judge and, as a stronger arm of its own,
through CAP; it is judged on the evaluation contexts as every other attack. It is saved as one of the user's phrases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from engine.attacks.registry import parse_attack
from engine.attacks.saved_phrases import MAX_NAME, SavedPhrase, save_phrase
from engine.attacks.suffix_search import BEST_PROBES, PROBES, Dials, SuffixSearch
from engine.attacks.suffix_vocabulary import vocabulary_of
from engine.data.dataset import Dataset
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.errors import InputError
from engine.judges.base import Judge, Request
from engine.runs import RunFolder, now
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
        run: its manifest gets the phrases under `learned`.
        progress: told of every prompt computed.

    Raises:
        InputError: the judge is no white box, or the training contexts have no response.
    """
    if not config.learned_words:
        return ()
    training = {r.item_id for r in contexts.training}
    asked = spread_over_items([r for r in build_requests(dataset) if r.item_id in training], config.learned_prompts)
    judges: dict[str, Judge] = {NONE: judge}
    if config.learned_through_cap and CAP in config.defenses:
        free = {item: one._replace(tokens=0, passes=0.0, seconds=0.0) for item, one in anchors[CAP].items()}
        judges[CAP] = AnchoredJudge(judge, CAP, GivenAnchors(CAP, free))
    part = learning_work(config) // len(judges)
    found = []
    for arm, defended in judges.items():
        phrase, queries = _search(config, defended, asked, progress.part(part), part)
        name = phrase_of(run.run_id, arm)
        values = tuple(float(v) for v in phrase[1])
        inner = inner_judge(defended)
        save_phrase(
            SavedPhrase(
                name, phrase[0], values, inner.spec, inner.fingerprint, "pointwise", arm, dataset.name, now(),
                run.run_id,
            )
        )  # fmt: skip
        attack = parse_attack(f"suffix:{name}:{len(phrase[0])}").name
        found.append(
            {"attack": attack, "defense": arm, "words": list(phrase[0]), "values": list(values), "queries": queries}
        )
        run.update_manifest(learned=found)
    return tuple(str(one["attack"]) for one in found)


def phrase_of(run_id: str, arm: str) -> str:
    """What a phrase of a run is called."""
    tail = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
    tail = re.sub(r"^cap-\d{8}-\d{6}-", "", tail)  # of an id that was made here the random part is enough
    return f"cap-{'through-' if arm == CAP else ''}{tail}"[:MAX_NAME].rstrip("-")


def _search(
    config: CapConfig, judge: Judge, asked: Sequence[Request], look: Callable[[int, int], None], total: int
) -> tuple[tuple[tuple[str, ...], tuple[float, ...]], int]:
    """Words and values of one phrase, and how many prompts it took."""
    loaded = inner_judge(judge).loaded
    vocabulary = vocabulary_of(loaded.tokenizer)
    cutter = PromptCutter(judge, asked, vocabulary)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done = min(done + more, total)
        look(done, total)

    search = SuffixSearch(loaded, cutter.labels, cutter.targets, vocabulary, cutter.fits)
    dials = Dials(config.learned_words, config.learned_candidates, seed=config.seed)
    found = search.run(dials, lambda _: None, count, [])
    return (found.words, found.values), found.queries
