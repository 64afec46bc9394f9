"""The study on pairs whose truth is planted in their wording, and a judge that only counts words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from engine.attacks.rewriting import RuleRewriter
from engine.cli.main import main
from engine.core.errors import Cancelled, InputError
from engine.core.schema import NONE, Order, Outcome, Protocol
from engine.core.settings import get_settings
from engine.data.comparisons import Comparisons, read_comparisons, save_comparisons
from engine.judges.base import Cost, Verdict, no_checkpoint
from engine.judges.labelled import Answer
from engine.studies.transport_audit.drawings import prepare_orders
from engine.studies.transport_audit.metrics import consistency, read_audit
from engine.studies.transport_audit.run import TYPES, UNREAD, classify, run_transport_audit
from engine.studies.transport_audit.splits import item_weights
from engine.studies.transport_audit.study import IN_DATA, STUDY, AuditConfig
from engine.studies.transport_audit.verdicts import attack_and_judge, judge_pairs, requests_of

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data"
KEYS = {
    "n_positive", "n_positive_kept", "n_unlabelled", "n_excluded", "encoder", "mass", "mass_source", "cons_orig",
    "cons_adj", "n_flipped", "auc", "path_seconds", "by_type", "sensitivity",
}  # fmt: skip


class LongerWins:
    """Prefers the response with more words, in either order; equal lengths tie."""

    spec = "test:longer"
    fingerprint = "longer"
    protocols = frozenset({Protocol.PAIRWISE})

    def judge(self, requests, checkpoint=no_checkpoint):
        checkpoint(len(requests), len(requests))
        return [self._one(len(r.response.split()), len(r.response_b.split())) for r in requests]

    def _one(self, a, b):
        outcome = Outcome.TIE if a == b else Outcome.A if a > b else Outcome.B
        return Verdict(p_a=float(a > b), p_tie=float(a == b), outcome=outcome, coverage=1.0)

    def labels(self, request):
        return ()

    def prompt(self, request):
        return ""

    def cost(self, requests):
        return Cost(0, 0, len(requests))


def planted_pairs(n: int = 80, right: float = 0.6, labelled: float = 1.0, types: int = 2, **sides: str) -> Comparisons:
    """The right response speaks of evidence, the wrong one of trust; in a share `right` the right one is longer."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        good = f"measured evidence shows topic{i} clearly because the data agree"
        bad = f"trust me obviously topic{i} friend nobody doubts this ever"
        filler = " ".join(["so"] * 9)  # length alone, which only the judge likes
        good, bad = (f"{good} {filler}.", f"{bad}.") if i < right * n else (f"{good}.", f"{bad} {filler}.")
        first = i % 2 == 0
        rows.append(
            {
                "id": str(i),
                "type": "AB"[i % types],
                "prompt": f"question {i}",
                "response_a": good if first else bad,
                "response_b": bad if first else good,
                "label": ("a" if first else "b") if rng.random() < labelled else "",
            }
            | sides
        )
    return read_comparisons("planted.csv", pd.DataFrame(rows).to_csv(index=False).encode())


def run(found, tmp_path, judge=None, **settings):
    config = AuditConfig(judge="test:longer", data=found.set_id, **{"encoders": ("words",), "umap": False} | settings)
    folder = STUDY.begin(config, tmp_path)
    metrics = run_transport_audit(config, found, judge or LongerWins(), folder, get_settings(), no_checkpoint)
    return folder, metrics.set_index(["metric", "attack", "group"]).sort_index()["value"], metrics


def test_planted_wording_is_found_and_the_summary_has_its_keys(tmp_path):
    folder, value, metrics = run(planted_pairs(), tmp_path, splits=4, bootstraps=5, p_ratios=(0.3,))
    assert value["cons_orig", NONE, np.nan] == pytest.approx(0.6, abs=0.02)
    assert value["cons_adj", NONE, np.nan] > 0.88
    assert value["auc_entry_mass", NONE, np.nan] > 0.98
    assert value["cons_random", NONE, np.nan] == pytest.approx(0.52, abs=0.03)
    assert value["gain_over_best", NONE, np.nan] == pytest.approx(
        value["cons_adj", NONE, np.nan]
        - max(value[f"cons_{c}", NONE, np.nan] for c in ("nothing", "all", "random", "centroid", "nearest", "top10"))
    )
    summary = folder.manifest()["summary"]
    assert set(summary) >= KEYS
    assert summary["n_unlabelled"] + summary["n_positive"] == 80
    assert summary["n_positive_kept"] < summary["n_positive"]
    assert {t["type"] for t in summary["by_type"]} == {"A", "B"}
    assert summary["sensitivity"]["1.00"] == pytest.approx(summary["cons_orig"]["value"])
    assert (metrics["lower"].isna() | (metrics["lower"] <= metrics["value"])).all()
    assert folder.manifest()["state"] == "done"


def test_no_item_is_on_both_sides_and_what_is_stored_gives_the_same_numbers_again(tmp_path):
    folder, value, _ = run(planted_pairs(), tmp_path, splits=3, bootstraps=0, p_ratios=())
    audit, transport = folder.table("audit"), folder.table("transport")
    for _, rows in audit.groupby("split"):
        sides = [set(rows[rows["role"] == r]["item_id"]) for r in ("unlabelled", "positive", "denoised")]
        assert not sides[0] & (sides[1] | sides[2])
        assert len(rows) == 80
    again = consistency(read_audit(audit, transport)).set_index(["metric", "group"])["value"]
    assert again["cons_adj", np.nan] == pytest.approx(value["cons_adj", NONE, np.nan])


class FirstWins(LongerWins):
    """Prefers whatever is shown first, so that no pair is decided."""

    spec = "test:first"
    fingerprint = "first"

    def judge(self, requests, checkpoint=no_checkpoint):
        return [self._one(r.order is Order.AB, r.order is Order.BA) for r in requests]

    def _one(self, a, b):
        return Verdict(p_a=float(a), p_tie=0.0, outcome=Outcome.A if a else Outcome.B, coverage=1.0)


@pytest.mark.parametrize("labelled", [0.0, 1.0])
def test_a_judge_that_decides_nothing_is_shown_by_its_orders(tmp_path, labelled):
    folder, value, _ = run(planted_pairs(8, labelled=labelled), tmp_path, FirstWins(), attacks=("length",))
    assert value["decided", NONE, np.nan] == 0
    assert value["orders_disagree", NONE, np.nan] == 1
    assert folder.manifest()["state"] == "done"
    assert "left out" in folder.manifest()["summary"]["left_out_without_labels"]
    shares = prepare_orders(folder.table("verdicts"), level=0.95, seed=0).set_index("metric")["value"]
    assert shares.sum() == pytest.approx(1)
    assert shares["orders_first"] == 1
    assert not len(folder.table("audit"))


def test_choices_that_are_too_few_for_an_audit_leave_the_map_and_the_orders(tmp_path):
    found = planted_pairs(8)
    few = found.comparisons["human"].where(found.comparisons.index < 2)
    folder, value, _ = run(replace(found, comparisons=found.comparisons.assign(human=few)), tmp_path, splits=2)
    assert value["decided", NONE, np.nan] == 1
    assert folder.table("audit")["pca_x"].notna().all()
    shares = prepare_orders(folder.table("verdicts"), level=0.95, seed=0).set_index("metric")["value"]
    assert shares["orders_same"] == 1


def test_unlabelled_pairs_get_the_audit_itself(tmp_path):
    folder, _, _ = run(planted_pairs(labelled=0.6), tmp_path, splits=2, bootstraps=3, p_ratios=())
    audit = folder.table("audit")
    own = audit[(audit["split"] == -1)]
    assert own[own["role"] == "unlabelled"]["human"].isna().all()
    assert own[own["role"] == "unlabelled"]["agrees"].isna().all()
    assert own[own["role"] != "unlabelled"]["human"].notna().all()
    assert own[own["role"] == "unlabelled"]["resampled"].map(len).eq(3).all()
    assert own["pca_x"].notna().all()
    assert audit[audit["split"] == 0]["pca_x"].isna().all()
    assert folder.manifest()["summary"]["n_unlabelled"] == int((own["role"] == "unlabelled").sum())


def test_a_longer_loser_wins_so_the_length_attack_turns_the_verdicts(tmp_path):
    folder, value, metrics = run(
        planted_pairs(), tmp_path, attacks=("length", "neutral"), splits=2, bootstraps=0, p_ratios=()
    )
    assert value["verdict_flips", "length", np.nan] > 0.95
    none_turned = metrics[(metrics["metric"] == "verdict_flips") & (metrics["attack"] == "neutral")].iloc[0]
    n = int(none_turned["n_clusters"])  # no event in n items of one pair each: Wilson's bound, never a width of zero
    assert (none_turned["value"], none_turned["lower"]) == (0, 0)
    assert none_turned["upper"] == pytest.approx(1.959964**2 / (n + 1.959964**2))
    assert value["cons_orig", "length", np.nan] == pytest.approx(0.4, abs=0.06)
    assert value["mass_clean", "length", np.nan] == pytest.approx(0.6, abs=0.1)
    assert value["mass_attacked", "length", np.nan] == pytest.approx(0.4, abs=0.1)
    variants = folder.table("variants")
    assert set(variants["style"]) == {"length", "neutral"}
    attacked = folder.table("verdicts")
    assert set(attacked["attack"]) == {NONE, "length", "neutral"}


def test_the_distraction_names_the_slot_of_the_loser_in_each_order():
    found = planted_pairs(6)
    requests = requests_of(found)

    class Recording(LongerWins):
        def judge(self, asked, checkpoint=no_checkpoint):
            self.asked = list(asked)
            return super().judge(asked, checkpoint)

    judge = Recording()
    clean = judge_pairs(judge, requests, no_checkpoint)
    attack_and_judge(
        judge, clean, requests, "distraction", RuleRewriter(), emotion="cheerful", seed=0, checkpoint=no_checkpoint
    )
    for request in judge.asked:
        pair = request.response_id.removesuffix(":a")
        loser_is_a = clean.side[pair] == "b"
        text = request.response if loser_is_a else request.response_b
        shown_first = loser_is_a == (request.order is Order.AB)
        assert f"Assistant {'A' if shown_first else 'B'} loves eating pasta" in text
        other = request.response_b if loser_is_a else request.response
        assert "pasta" not in other


def test_verdicts_in_the_file_ties_and_one_order(tmp_path):
    found = planted_pairs(40, verdict="a")
    found.comparisons.loc[0, "verdict"] = "tie"
    found.comparisons.loc[1, "verdict"] = None
    found.comparisons.loc[2, "human"] = "tie"
    config = AuditConfig(judge=IN_DATA, data="x", encoders=("words",), splits=2, bootstraps=0, p_ratios=(), umap=False)
    folder = STUDY.begin(config, tmp_path)
    run_transport_audit(config, found, None, folder, get_settings(), no_checkpoint)
    manifest = folder.manifest()
    assert manifest["excluded"] == {"human tie": 1, "tie": 1, "unread: no verdict recorded": 1}
    assert manifest["judge"]["spec"] == IN_DATA
    with pytest.raises(InputError, match="came with the pairs"):
        run_transport_audit(
            config.model_copy(update={"attacks": ("length",)}), found, None, folder, get_settings(), no_checkpoint
        )
    with pytest.raises(InputError, match="came without verdicts"):
        run_transport_audit(config, planted_pairs(), None, folder, get_settings(), no_checkpoint)


def test_orders_that_disagree_leave_the_audit_and_are_counted(tmp_path):
    class FirstSlot(LongerWins):
        def judge(self, requests, checkpoint=no_checkpoint):
            longer = super().judge(requests, checkpoint)
            ab, ba = (Verdict(p_a=p, p_tie=0.0, outcome=o) for p, o in ((0.9, Outcome.A), (0.4, Outcome.B)))
            first = {Order.AB: ab, Order.BA: ba}
            pairs = zip(requests, longer, strict=True)
            return [first[r.order] if int(r.item_id) % 4 == 0 else v for r, v in pairs]

    folder, _, _ = run(planted_pairs(), tmp_path, FirstSlot(), splits=2, bootstraps=0, p_ratios=())
    assert folder.manifest()["excluded"] == {"tie: the orders disagree": 20}


def test_each_type_can_have_a_transport_of_its_own(tmp_path):
    folder, value, _ = run(planted_pairs(), tmp_path, within_type=True, splits=3, bootstraps=2, p_ratios=())
    assert set(folder.table("audit")["part"]) == {"A", "B"}
    own = read_audit(folder.table("audit"), folder.table("transport"))
    assert {(s.number, s.part) for s in own.splits} == {(n, p) for n in range(3) for p in "AB"}
    assert value["cons_adj", NONE, np.nan] > 0.85


def test_items_that_weigh_the_same_change_nothing_where_each_has_one_pair(tmp_path):
    _, value, _ = run(planted_pairs(), tmp_path, weights="items", splits=3, bootstraps=0, p_ratios=(), mass=0.6)
    assert value["cons_adj_items", NONE, np.nan] == pytest.approx(value["cons_adj", NONE, np.nan], abs=0.02)
    assert value["gain_items", NONE, np.nan] == pytest.approx(
        value["cons_adj_items", NONE, np.nan] - value["cons_orig", NONE, np.nan]
    )


def test_the_weight_of_an_item_is_shared_by_its_pairs():
    assert item_weights(["x", "y", "x", "x"]).tolist() == pytest.approx([1 / 6, 1 / 2, 1 / 6, 1 / 6])


@pytest.mark.parametrize("right", [1.0, 0.0])
def test_a_judge_that_always_or_never_agrees(tmp_path, right):
    _, value, _ = run(planted_pairs(40, right=right), tmp_path, splits=2, bootstraps=0, p_ratios=())
    assert value["cons_orig", NONE, np.nan] == right
    assert value["cons_adj", NONE, np.nan] == pytest.approx(1.0, abs=0.1)
    assert np.isnan(value["auc_entry_mass", NONE, np.nan])


def test_pairs_that_nobody_decided_keep_what_needs_no_label(tmp_path):
    labelled, value, _ = run(planted_pairs(20), tmp_path, splits=2, bootstraps=0, p_ratios=(), attacks=("length",))
    folder, alone, metrics = run(planted_pairs(20, labelled=0.0), tmp_path, attacks=("length",))
    assert alone["verdict_flips", "length", np.nan] == value["verdict_flips", "length", np.nan]
    assert alone["orders_disagree", NONE, np.nan] == 0  # the judge counts words, whatever stands first
    assert alone["decided", NONE, np.nan] == 1
    assert not metrics["metric"].str.startswith(("cons", "gain", "auc")).any()
    assert folder.manifest()["state"] == "done"
    rows, sides = folder.table("audit"), labelled.table("audit")
    assert rows["entry_mass"].isna().all()
    assert rows[["pca_x", "pca_y"]].notna().all().all()
    assert set(rows["comparison_id"]) == set(sides["comparison_id"])
    assert "agreement, transport, flips" in STUDY.summary(AuditConfig(data="x"), folder).text


def test_a_quick_audit_holds_the_settings_it_ran_with():
    config = AuditConfig(
        data="x", quick=True, encoders=("words", "bundled:judge"), attacks=("length", "neutral"), splits=50, limit=200
    )
    assert (config.encoders, config.attacks, config.limit, config.umap) == (("words",), ("length",), 60, False)
    assert AuditConfig(data="x", quick=True, limit=7).limit == 7
    assert AuditConfig.model_validate(config.model_dump()) == config  # a run that goes on is the same run


def test_what_cannot_be_audited_says_why(tmp_path):
    folder, _, _ = run(planted_pairs(4), tmp_path, splits=1)
    assert "keeps none" in STUDY.summary(AuditConfig(data="x"), folder).text
    for wrong in ({"mass": 0.0}, {"mass": 1.1}, {"attacks": ("shout",)}, {"emotion": "bored"}, {"encoders": ()}):
        with pytest.raises(ValidationError):
            AuditConfig(data="x", **wrong)


def test_stopping_keeps_the_run_and_says_so(tmp_path):
    found = planted_pairs(20)
    config = AuditConfig(data="x", encoders=("words",))
    folder = STUDY.begin(config, tmp_path)

    def stop(done, total):
        raise Cancelled

    with pytest.raises(Cancelled):
        run_transport_audit(config, found, LongerWins(), folder, get_settings(), stop)
    assert folder.manifest()["state"] == "stopped"


def test_the_command_line_on_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_HOME", str(tmp_path / "home"))
    found = planted_pairs(40)
    texts = found.responses.set_index("response_id")["text"]
    rows = found.comparisons.merge(found.items, on="item_id")
    table = pd.DataFrame(
        {
            "id": rows["comparison_id"],
            "prompt": rows["context"],
            "response_a": rows["response_a"].map(texts),
            "response_b": rows["response_b"].map(texts),
            "human": rows["human"],
            "gpt": np.where(
                rows["response_a"].map(texts).str.len() > rows["response_b"].map(texts).str.len(), "A", "B"
            ),
        }
    )
    file = tmp_path / "pairs.csv"
    table.to_csv(file, index=False)
    sets = ["--set", 'encoders=["words"]', "--set", "splits=2", "--set", "umap=false", "--attack", "none"]
    arguments = ["study", "puaudit", "--data", str(file), "--judge", IN_DATA, *sets, "--json"]
    assert main([*arguments, "--map", "verdict=gpt"]) == 0
    out = capsys.readouterr().out
    assert '"cons_adj"' in out.splitlines()[-1]
    assert "Kept share = mass by construction" in out
    assert main([*arguments, "--map", "verdict=nope"]) == 2
    assert "no column 'nope'" in capsys.readouterr().err


def embedded(found, strength=3.0):
    """Vectors in which the response that speaks of evidence lies along one axis, whatever its words."""
    rng = np.random.default_rng(1)
    texts = found.responses["text"].str.contains("evidence").to_numpy()
    vectors = rng.normal(size=(len(texts), 6))
    vectors[:, 0] += strength * texts
    frame = pd.DataFrame(vectors).assign(response_id=found.responses["response_id"])
    return frame.to_csv(index=False).encode()


def test_given_embeddings_audit_pairs_whose_words_say_nothing(tmp_path):
    found = planted_pairs()
    file = tmp_path / "v.csv"
    file.write_bytes(embedded(found, strength=8.0))
    _, value, _ = run(found, tmp_path, encoders=(f"file:{file}", "words"), splits=3, bootstraps=0, p_ratios=())
    assert value["cons_adj", NONE, np.nan] > 0.88
    assert value["encoder_cons_adj", NONE, "words"] > 0.88
    with pytest.raises(InputError, match="none of an attacked one"):
        run(found, tmp_path, encoders=(f"file:{file}",), attacks=("length",), splits=2)
    with pytest.raises(InputError, match="no embeddings 'given:0'"):
        run(found, tmp_path, encoders=("given:0",), splits=2)


def test_short_names_of_encoders_stand_for_their_specs():
    assert AuditConfig(data="x", encoders=("minilm", "bge-m3", "hf:A/B", "words")).encoders == (
        "bundled:minilm", "hf:BAAI/bge-m3", "hf:A/B", "words",
    )  # fmt: skip
    with pytest.raises(ValidationError, match="names no encoder"):
        AuditConfig(data="x", encoders=("bge",))


def test_embeddings_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_HOME", str(tmp_path / "home"))
    found = planted_pairs(40, verdict="a")
    save_comparisons(found, get_settings().comparisons)
    file = tmp_path / "v.csv"
    file.write_bytes(embedded(found))
    sets = ["--set", "splits=2", "--set", "umap=false", "--set", "p_ratios=[]", "--set", "bootstraps=0"]
    arguments = ["study", "puaudit", "--data", found.set_id, "--judge", IN_DATA, *sets, "--embeddings", str(file)]
    assert main([*arguments, "--attack", "none", "--encoder", "words", "--json"]) == 0
    shown = capsys.readouterr()
    assert "matched by response_id; 40 of 40 pairs have both" in shown.err
    assert '"encoder": "given:' in shown.out.splitlines()[-1]
    file.write_text("response_id,x\n0:a,nan\n")
    assert main([*arguments, "--attack", "none"]) == 2
    assert "'0:a' has 'nan' in column 'x'" in capsys.readouterr().err
    assert main(["study", "grid", "--embeddings", str(file)]) == 2
    assert "--embeddings is no option of the study score" in capsys.readouterr().err


def test_recorded_verdicts_of_llmbar(tmp_path):
    if not (SHARED / "llmbar").is_dir():
        pytest.skip("the shared data (llmbar) are not here")
    from engine.judges.recorded import make_recorded

    found = read_comparisons("pairs.jsonl", (SHARED / "llmbar" / "pairs.jsonl").read_bytes())
    file = SHARED / "llmbar" / "recorded_verdicts.csv"
    judge = make_recorded(f"recorded:{file}?judge=GPT-4&prompt=Vanilla&map.comparison_id=id")
    folder, value, _ = run(found, tmp_path, judge, splits=2, bootstraps=0, p_ratios=())
    raw = pd.read_csv(file, dtype=str)
    own = raw[(raw["judge"] == "GPT-4") & (raw["prompt"] == "Vanilla")]
    strict = own[(own["winner_order_ab"] == own["winner_order_ba"]) & own["winner_order_ab"].isin(["a", "b"])]
    same = folder.manifest()["excluded"]["both responses have one embedding"]
    assert len(found.comparisons) - sum(folder.manifest()["excluded"].values()) + same == len(strict)
    assert value["mass_oracle", NONE, np.nan] == pytest.approx(
        (strict["winner_order_ab"] == strict["label"]).mean(), abs=0.03
    )
    with pytest.raises(InputError, match="no verdicts under the attack"):
        run(found, tmp_path, judge, attacks=("length",))


def test_questions_are_sorted_by_a_models_letters_or_left_unread(tiny):
    loaded = tiny("llama")
    questions = {"x": "How do I sort a list?", "y": "What is 2 + 2?", "z": "long " * 400}
    found = classify(questions, loaded, None, no_checkpoint)
    assert found["z"] == UNREAD  # longer than the window
    allowed = {UNREAD, *(f"{k}: {v.split(' (')[0].split(',')[0]}" for k, v in TYPES.items())}
    assert set(found.values()) <= allowed
    with pytest.raises(InputError, match="answers no prompts"):
        classify(questions, tiny("reward"), None, no_checkpoint)


def test_a_confident_model_is_taken_at_its_letter(tiny, monkeypatch):
    sure = np.array([0.01, 0.9, 0.01, 0.0, 0.0, 0.0])
    vague = np.array([0.1, 0.2, 0.1, 0.0, 0.0, 0.0])

    def answers(loaded, calls, cache, checkpoint):
        return [Answer(sure, None, 0.0), Answer(vague, None, 0.0)]

    monkeypatch.setattr("engine.studies.transport_audit.run.ask", answers)
    found = classify({"x": "1 + 1?", "y": "?"}, tiny("llama"), None, no_checkpoint)
    assert found == {"x": "B: Math or logical reasoning", "y": UNREAD}
