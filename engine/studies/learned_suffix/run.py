"""Study `suffix`: a phrase learned on some items (AdvSuffix) and measured, word by word, on the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from engine.attacks.cards import SavedPhrase, save_phrase
from engine.attacks.registry import make_attack
from engine.attacks.suffix_search import (
    BEST_PROBES,
    PROBES,
    Progress,
    SearchSettings,
    SuffixSearch,
    Vocabulary,
    vocabulary_of,
)
from engine.core.schema import NONE, Protocol
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.defenses.base import unwrap
from engine.defenses.cards import defense_name
from engine.defenses.registry import defend
from engine.judges.base import Checkpoint, Judge, Request, verdict_table
from engine.judges.kinds import both_orders
from engine.runs.folder import RunFolder, now
from engine.stats.agreement import combine_orders
from engine.studies.anchors import sources_for
from engine.studies.learned_suffix.metrics import length_metrics
from engine.studies.learned_suffix.study import PHRASE, SuffixConfig
from engine.studies.running import about_data, about_judge, ending, with_attack, within
from engine.studies.suffix_targets import PromptCutter, Split, inner_judge, split_requests, spread_over_items


def run_suffix(
    config: SuffixConfig, dataset: Dataset, judge: Judge, run: RunFolder, checkpoint: Checkpoint
) -> pd.DataFrame:
    """Search, save the phrase, measure it on the held-out items; returns the metrics table.

    Raises:
        InputError: the judge is no white box, or the data is too small.
        Cancelled: from the checkpoint; the words found so far are kept, and the same run goes on behind them.
    """
    look = within(config.budget_seconds, checkpoint)
    with ending(run):
        return _run(config, dataset, judge, run, look)


class Search(NamedTuple):
    """Inputs of a search.

    Attributes:
        judge: behind the defense.
        split: of the items.
        vocabulary: of the judge's model.
        cutter: has the training prompts.
        test: held-out requests that are measured.
        prompts: computed by the search, at most.
        verdicts: of the measurement.
    """

    judge: Judge
    split: Split
    vocabulary: Vocabulary
    cutter: PromptCutter
    test: list[Request]
    prompts: int
    verdicts: int


def prepare(config: SuffixConfig, dataset: Dataset, judge: Judge) -> Search:
    """Split the data, cut the training prompts, count the work; no model is asked.

    Raises:
        InputError: the judge is no white box, or the data is too small.
    """
    protocol = Protocol(config.protocol)
    sources = sources_for([config.defense], dataset, get_settings(), config.tutor)
    defended = defend(judge, config.defense, sources=sources)
    by_group = config.split == "group"
    split = split_requests(dataset, protocol, config.prompts, config.train_share, config.seed, by_group=by_group)
    vocabulary = vocabulary_of(inner_judge(defended).loaded.tokenizer)
    cutter = PromptCutter(defended, split.train, vocabulary)
    test = spread_over_items(split.test, config.limit)
    probes = PROBES + BEST_PROBES if config.guided else 0
    prompts = len(cutter.requests) * (1 + config.words * (config.candidates + probes))
    verdicts = len(test) * (1 + config.words) * (2 if protocol is Protocol.PAIRWISE else 1)
    return Search(defended, split, vocabulary, cutter, test, prompts, verdicts)


def plan_suffix(config: SuffixConfig, dataset: Dataset, judge: Judge) -> dict[str, int]:
    """Upper bound of the study's cost: prompts of the search, verdicts of the measurement, tokens of both together.

    Tokens count every prompt whole and without a phrase; beginnings that prompts share are computed once.

    Raises:
        InputError: as `prepare`.
    """
    made = prepare(config, dataset, judge)
    inner = inner_judge(made.judge)
    lengths = [len(head) + len(tail) for head, tail in made.cutter.ends]
    tokens = made.prompts * sum(lengths) // len(lengths)
    if made.test:
        asked = both_orders(made.test) if Protocol(config.protocol) is Protocol.PAIRWISE else made.test
        going = unwrap(made.judge, asked)[1]
        tokens += (1 + config.words) * sum(len(inner.token_ids(r)) for r in going)
    return {"search_prompts": made.prompts, "verdicts": made.verdicts, "tokens": tokens}


def _run(config: SuffixConfig, dataset: Dataset, judge: Judge, run: RunFolder, look: Checkpoint) -> pd.DataFrame:
    protocol = Protocol(config.protocol)
    defended, split, vocabulary, cutter, test, in_search, verdicts_asked = prepare(config, dataset, judge)
    loaded = inner_judge(defended).loaded
    _describe(run, config, dataset, defended, split, cutter, len(vocabulary.words))
    total = in_search + verdicts_asked
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done = min(done + more, in_search)
        look(done, total)

    search = SuffixSearch(loaded, cutter.labels, cutter.targets, vocabulary, cutter.fits)
    log = _Log(run)
    start = run.manifest()[PHRASE]["words"]
    settings = SearchSettings(config.words, config.candidates, config.lower, config.guided, config.seed)
    found = search.run(settings, log.add, count, start)
    name = str(run.manifest()[PHRASE]["name"])
    save_phrase(_saved(name, found, config, defended, dataset, run))
    if not test:
        run.update_manifest(state="done", finished=now())
        return run.table("metrics")
    verdicts = _measured(defended, test, name, len(found.words), lambda d, t: look(total - t + d, total))
    run.write_table("verdicts", verdicts)
    if protocol is Protocol.PAIRWISE:
        run.write_table("pairs", combine_orders(verdicts))
    metrics = length_metrics(verdicts, level=config.level, seed=config.seed)
    run.write_table("metrics", metrics)
    run.update_manifest(state="done", finished=now())
    return metrics


class _Log:
    """Writes each round of a search into the run."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._rows: list[dict[str, Any]] = []

    def add(self, now_at: Progress) -> None:
        """Add the round's candidates; the chosen word is marked when its step ends."""
        if not self._rows:
            steps = enumerate(zip(("", *now_at.words), now_at.values, strict=True))
            self._rows = [_row(k, word, value, 0, now_at.queries, 1) for k, (word, value) in steps]
        self._rows += [_row(t.step, t.word, t.value, t.n_unread, now_at.queries, 0) for t in now_at.tried]
        if now_at.chosen and now_at.words:
            step = len(now_at.words)
            for row in self._rows:
                if row["step"] == step:
                    row["chosen"] = int(row["word"] == now_at.words[-1])
        self._run.write_table("suffix_search", pd.DataFrame(self._rows))
        if now_at.chosen:
            old = self._run.manifest()[PHRASE]
            new = {"words": list(now_at.words), "values": list(now_at.values), "queries": now_at.queries}
            self._run.update_manifest(**{PHRASE: old | new})


def _row(step: int, word: str, value: float, n_unread: int, queries: int, chosen: int) -> dict[str, Any]:
    names = ("step", "word", "value", "n_unread", "queries", "chosen")
    return dict(zip(names, (step, word, value, n_unread, queries, chosen), strict=True))


def _measured(judge: Judge, test: Sequence[Request], name: str, words: int, checkpoint: Checkpoint) -> pd.DataFrame:
    """Verdicts of the held-out requests without the phrase and with its first 1 to `words` words."""
    attacks = [make_attack(NONE), *(make_attack(f"suffix:{name}:{k}") for k in range(1, words + 1))]
    asked = both_orders(test) if test[0].protocol is Protocol.PAIRWISE else test
    requests = [with_attack(r, a) for r in asked for a in attacks]
    return verdict_table(judge, requests, judge.judge(requests, checkpoint))


def _saved(
    name: str, found: Progress, config: SuffixConfig, judge: Judge, dataset: Dataset, run: RunFolder
) -> SavedPhrase:
    return SavedPhrase(
        name=name,
        words=found.words,
        values=found.values,
        judge=judge.spec,
        fingerprint=judge.fingerprint,
        protocol=config.protocol,
        defense=defense_name(config.defense),
        data=dataset.name,
        created=now(),
        run_id=run.run_id,
    )


def _describe(
    run: RunFolder,
    config: SuffixConfig,
    dataset: Dataset,
    judge: Judge,
    split: Split,
    cutter: PromptCutter,
    n_words: int,
) -> None:
    test = spread_over_items(split.test, config.limit)
    run.update_manifest(
        data=about_data(dataset, len({r.item_id for r in test}), len(test)),
        judge=about_judge(judge, list(cutter.labels.labels), cutter.requests[:1]),
        split={
            "train_responses": list(dict.fromkeys(r.response_id for r in cutter.requests)),
            "train_items": sorted({r.item_id for r in split.train}),
            "test_items": sorted({r.item_id for r in test}),
        },
        vocabulary=n_words,
    )
