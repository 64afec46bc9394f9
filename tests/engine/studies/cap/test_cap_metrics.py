"""Cost, distances and gaps of the study's arms against sums by hand, and who writes a chain of thought."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.anchors import Anchors
from engine.defenses.guard import Reading
from engine.defenses.reasoning import reasoning_prompt
from engine.inference.llama import Row
from engine.judges.base import Verdict, verdict_table
from engine.judges.planted import make_planted
from engine.runs.folder import open_run
from engine.stats.shifts import from_undefended
from engine.studies.cap.arms import AnchorSets, arms_of, reasoner_of, tokens_apart, with_fitted
from engine.studies.cap.contexts import Contexts, divide
from engine.studies.cap.metrics import arm_metrics, cost_rows
from engine.studies.cap.recompute import recompute
from engine.studies.cap.study import CapConfig
from engine.studies.cap.tutor import Ask, Draft, TutorWriter
from engine.studies.running import build_requests

CONFIG = CapConfig(judge="planted:constant", data="demo-dialogue", defenses=("human-anchors",), attacks=("dsi",))
JUDGE = make_planted("planted:constant")


@pytest.fixture
def demo(settings) -> Dataset:
    return load_dataset("demo-dialogue", settings.datasets)


@pytest.fixture
def contexts(demo) -> Contexts:
    return divide(CONFIG, demo)


def table(requests, verdicts, defense, attack="none") -> pd.DataFrame:
    return verdict_table(JUDGE, [dataclasses.replace(r, defense=defense, attack=attack) for r in requests], verdicts)


def by_metric(rows):
    return {str(row["metric"]): row for row in rows}


def test_a_withheld_reply_takes_no_tokens_and_makes_no_arm_cheap(contexts):
    asked = contexts.responses[:8]  # two contexts of four
    withheld = Verdict(unread_reason="no anchors are given for this item")
    too_long = Verdict(unread_reason="prompt of 9,000 tokens", prompt_tokens=9000)
    unreadable = Verdict(unread_reason="no number", prompt_tokens=120, forward_passes=1.0)
    read = [Verdict(score=3.0, prompt_tokens=100 + 10 * k, forward_passes=1.0, seconds=0.5) for k in range(5)]
    own = table(asked, [withheld, too_long, unreadable, *read], "cap")
    items = list(dict.fromkeys(r.item_id for r in asked))
    made = {items[0]: Anchors("l", "h", tokens=640, seconds=2.0), items[1]: Anchors("l", "h", tokens=1280, seconds=4.0)}
    found = by_metric(cost_rows(own, made, {}, CONFIG))
    tokens = np.array([120, 100, 110, 120, 130, 140.0])  # the unreadable reply was asked and paid for
    extra = np.array([640, 640, 1280, 1280, 1280, 1280.0])
    alone, shared = found["tokens_alone"], found["tokens_shared"]
    assert (alone["n"], alone["n_unread"], shared["n"], shared["n_unread"]) == (6, 2, 6, 2)
    assert alone["value"] == pytest.approx((tokens + extra).mean())
    assert shared["value"] == pytest.approx((tokens + extra / 64).mean())
    assert found["seconds_alone"]["value"] == pytest.approx(0.5 + (2 + 4 * 4) / 5)
    assert (found["seconds_alone"]["n"], found["seconds_alone"]["n_unread"]) == (5, 3)


def test_an_arm_that_was_never_asked_has_no_cost_instead_of_none_at_all(contexts):
    asked = contexts.responses[:4]
    own = table(asked, [Verdict(unread_reason="withheld")] * 4, "human-anchors")
    found = by_metric(cost_rows(own, {}, {}, CONFIG))
    assert np.isnan(found["tokens_alone"]["value"])
    assert (found["tokens_alone"]["n"], found["tokens_alone"]["n_unread"]) == (0, 4)


class Tutor:
    """Writes the same words to everything; a prompt has as many tokens as words."""

    loaded = None

    def drawn(self, prompt, *_):
        return Ask(tuple(range(len(prompt.split()))), Row(0), prompt)

    def write(self, asks, *_):
        return [Draft("a few words", 0.0, len(ask.ids) + 3, 0.1) for ask in asks]


@dataclasses.dataclass
class Own:
    """A judge with a server behind it that reasons itself."""

    spec: str = "api:some"
    writes: bool = True


def test_reasoning_is_charged_to_whoever_writes_it(contexts):
    responses = contexts.responses[:3]
    config = CONFIG.model_copy(update={"defenses": ("none", "cot?tokens=32")})
    none = AnchorSets({}, {}, pd.DataFrame())
    writer = reasoner_of(config, JUDGE, Tutor)  # type: ignore[arg-type]
    assert isinstance(writer, TutorWriter)
    arms = arms_of(config, JUDGE, none, writer, None)  # type: ignore[arg-type]
    verdicts = arms.judges["cot?tokens=32"].judge(responses)
    own = table(responses, verdicts, "cot?tokens=32")
    found = tokens_apart("cot?tokens=32", arms, own, responses, Tutor())  # type: ignore[arg-type]
    assert found == {r.response_id: len(reasoning_prompt(r).split()) + 3 for r in responses}

    assert reasoner_of(config, Own(), lambda: pytest.fail("the base was loaded")) is None  # type: ignore[arg-type]
    itself = dataclasses.replace(arms, writer=None)
    replies = [Verdict(score=3.0, prompt_tokens=200, forward_passes=40.0 + k) for k in range(3)]
    own = table(responses, replies, "cot?tokens=32")
    found = tokens_apart("cot?tokens=32", itself, own, responses, Tutor())  # type: ignore[arg-type]
    assert list(found.values()) == [40, 41, 42]
    assert tokens_apart("none", itself, own, responses, Tutor()) == {}  # type: ignore[arg-type]


def test_without_a_chain_of_thought_nothing_is_loaded_for_one():
    assert reasoner_of(CONFIG, JUDGE, lambda: pytest.fail("the base was loaded")) is None


def test_distances_are_from_the_undefended_clean_score(contexts):
    asked = contexts.responses[:8]
    levels = {("none", "none"): 3.0, ("none", "dsi"): 3.5, ("cap", "none"): 2.0, ("cap", "dsi"): 2.1}
    rows = [
        table(asked, [Verdict(score=value + 0.1 * k) for k in range(8)], defense, attack)
        for (defense, attack), value in levels.items()
    ]
    found = from_undefended(pd.concat(rows)).set_index("defense")["value"]
    assert found["none"] == pytest.approx(0.5)
    assert found["cap"] == pytest.approx(-0.9)  # its own shift is only +0.1
    assert from_undefended(rows[3]).empty


def test_the_gap_of_rated_anchors_is_that_of_the_responses_they_are(demo, contexts):
    asked = contexts.responses
    score = {r.response_id: 1.0 + (k % 4) + 0.1 * (k // 4) for k, r in enumerate(asked)}
    by_response = {}
    for r in asked:
        others = [o for o in asked if o.item_id == r.item_id and o.response_id != r.response_id]
        by_response[r.response_id] = Anchors(low=others[0].response, high=others[-1].response)
    first = asked[0].response_id
    by_response[first] = Anchors(unread="no two others")
    verdicts = pd.concat(
        [table(asked, [Verdict(score=score[r.response_id]) for r in asked], d) for d in ("none", "human-anchors")]
    )
    anchors = AnchorSets({}, {"human-anchors": by_response}, pd.DataFrame(columns=["arm", "item_id", "side", "score"]))
    metrics = arm_metrics(CONFIG, verdicts, demo, anchors, contexts, {})
    row = metrics[(metrics["metric"] == "anchor_gap") & (metrics["defense"] == "human-anchors")].iloc[0]
    texts = {(r.item_id, r.response): score[r.response_id] for r in asked}
    gaps = [
        texts[r.item_id, by_response[r.response_id].high] - texts[r.item_id, by_response[r.response_id].low]
        for r in asked
        if r.response_id != first
    ]
    assert row["value"] == pytest.approx(np.mean(gaps))
    assert (row["n"], row["n_unread"]) == (len(asked) - 1, 1)


class Lengths:
    """A guard whose perplexity is a text's length in characters."""

    def perplexities(self, texts, _window, _after):
        return [Reading(float(len(text))) for text in texts]


def test_thresholds_are_fitted_on_training_responses_and_name_the_arms(demo, contexts):
    config = CONFIG.model_copy(update={"defenses": ("none", "perplexity", "cap"), "attacks": ("dsi", "suffix")})
    arms, found = with_fitted(config, contexts, demo, Lengths(), lambda *_: None)  # type: ignore[arg-type]
    assert [one["against"] for one in found] == ["suffix", "prompt"]
    training = {r.item_id for r in contexts.training}
    broken = set(demo.responses.loc[demo.responses["quality"] == "broken", "response_id"])
    clean = [r for r in build_requests(demo) if r.item_id in training and r.response_id not in broken]
    assert all(one["n_clean"] == one["n_attacked"] == len(clean) for one in found)
    assert arms == ("none", *(f"perplexity?threshold={one['threshold']:.9f}".rstrip("0").rstrip(".") for one in found),
                    "cap")  # fmt: skip
    longest = max(len(r.response) for r in clean)
    assert 0 < found[0]["threshold"] <= longest + 60

    kept = config.model_copy(update={"defenses": ("none", "perplexity?threshold=84")})
    assert with_fitted(kept, contexts, demo, Lengths(), lambda *_: None) == (kept.defenses, [])  # type: ignore[arg-type]
    stock = config.model_copy(update={"fit_perplexity": False})
    assert with_fitted(stock, contexts, demo, Lengths(), lambda *_: None) == (stock.defenses, [])  # type: ignore[arg-type]


def test_a_run_counted_again_changes_withheld_arms_and_adds_what_was_not_counted(settings, demo):
    folder = settings.assets / "demo" / "dialogue"
    run = open_run(folder, "cap")
    now = run.table("metrics").set_index(["metric", "attack", "defense"])
    again = recompute(run, demo, settings).set_index(["metric", "attack", "defense"])
    pd.testing.assert_frame_equal(again, now)  # the recorded run is counted by this version's rules
    own = run.table("verdicts")
    own = own[(own["defense"] == "human-anchors") & (own["attack"] == "none")]
    asked = own.loc[own["unread_reason"].isna(), "prompt_tokens"].astype(float)
    row = now.loc[("tokens_alone", "none", "human-anchors")]
    assert (row["value"], row["n"], row["n_unread"]) == (pytest.approx(asked.mean()), len(asked), len(own) - len(asked))

    def older(metrics):
        """As an earlier version wrote it: withheld replies at no tokens, and no distances or rated gaps."""
        kept = metrics[
            (metrics["metric"] != "from_undefended")
            & ~metrics.index.isin(
                metrics.index[(metrics["metric"] == "anchor_gap") & (metrics["defense"] == "human-anchors")]
            )
        ]
        wrong = kept["metric"].isin(["tokens_alone", "tokens_shared"]) & (kept["defense"] == "human-anchors")
        return kept.assign(value=kept["value"].mask(wrong, asked.sum() / len(own)))

    class Older:
        manifest = run.manifest

        def table(self, name):
            return older(run.table(name)) if name == "metrics" else run.table(name)

    mended = recompute(Older(), demo, settings).set_index(["metric", "attack", "defense"])  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(mended, now)
