"""One set of numbers in an audit's table, figures and command line, each with its n and its bounds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.cli.main import main
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.data.comparisons import Comparisons, read_comparisons
from engine.judges.base import no_checkpoint
from engine.report.basket import Piece
from engine.runs.folder import RunFolder
from engine.stats.auc import SEPARATED
from engine.stats.intervals import NO_VARIATION, WILSON_CLUSTERS, wilson
from engine.studies.figure import Source
from engine.studies.registry import entries, entry_of
from engine.studies.transport_audit import figures
from engine.studies.transport_audit.metrics import HYPERGEOMETRIC, random_curve, read_audit
from engine.studies.transport_audit.run import UNREAD, classify_by_api, run_transport_audit
from engine.studies.transport_audit.study import IN_DATA, STUDY, AuditConfig
from engine.transport.audit import audit
from engine.transport.encoders import ModelEncoder
from tests.engine.judges.api_server import completion, serving
from tests.engine.studies.transport_audit.test_puaudit import planted_pairs, run

QUICK = {"splits": 4, "bootstraps": 2, "p_ratios": (), "umap": False, "encoders": ("words",)}


def table(rows) -> Comparisons:
    return read_comparisons("made.csv", pd.DataFrame(rows).to_csv(index=False).encode())


def two_types(n: int = 40) -> Comparisons:
    """A judge that is right in 19 of 20 pairs of A and in 1 of 20 of B."""
    rng, rows = np.random.default_rng(3), []
    for kind, right in (("A", 0.95), ("B", 0.05)):
        for i in range(n):
            good, bad = ([word, *rng.choice(list("mnopqrstuvwxyz"), 6)] for word in ("good", "bad"))
            first, agrees = i % 2 == 0, i >= round((1 - right) * n)
            a, b = (good, bad) if first else (bad, good)
            rows.append(
                {"id": f"{kind}{i}", "prompt": f"{kind} question {i}", "response_a": " ".join(a), "type": kind,
                 "response_b": " ".join(b), "human": "ab"[not first], "verdict": "ab"[first != agrees]}
            )  # fmt: skip
    return table(rows)


def audited(found: Comparisons, folder, **settings) -> RunFolder:
    config = AuditConfig(judge=IN_DATA, data=found.set_id, **QUICK | settings)
    made = STUDY.begin(config, folder)
    run_transport_audit(config, found, None, made, get_settings(), no_checkpoint)
    return made


@pytest.mark.parametrize(
    "settings", [{"within_type": True}, {}, {"mass": 0.333, "eta": 0.9, "level": 0.9, "seed": 5}], ids=str
)
def test_at_its_start_the_page_shows_the_numbers_of_the_study(tmp_path, settings):
    folder = audited(two_types(), tmp_path, **settings)
    source, stored = Source(folder), folder.table("metrics")
    own = stored[stored["attack"] == NONE]
    shown = figures.table_at(source, NONE)
    for row in shown.fillna({"group": ""}).to_dict("records"):
        same = own[(own["metric"] == row["metric"]) & (own["group"].fillna("") == row["group"])].iloc[0]
        for name in ("value", "lower", "upper", "level"):
            assert row[name] == pytest.approx(same[name], nan_ok=True), (row["metric"], row["group"], name)
    assert figures.rows_at(source, NONE)["flip"].sum() == folder.manifest()["summary"]["n_flipped"]
    assert figures.mean_mass(source, NONE) == round(folder.manifest()["summary"]["mass"], 2)
    figure = entry_of(source, "controls").prepare(source)
    adjusted = figure.set_index("metric").loc["cons_adj", "value"]
    assert adjusted == pytest.approx(folder.manifest()["summary"]["cons_adj"]["value"])


def test_each_type_is_cut_at_its_own_mass_until_one_is_set(tmp_path):
    folder = audited(two_types(), tmp_path, within_type=True)
    source, summary = Source(folder), folder.manifest()["summary"]
    assert summary["gain"]["lower"] > 0.2
    own = figures.masses(source, NONE)
    assert own["A"] > 0.85
    assert own["B"] < 0.15
    assert figures.masses(source, NONE, 0.4) == {"A": 0.4, "B": 0.4}
    assert figures.cuts(source, NONE, None, "B") == [own["B"]]
    entry = entry_of(source, "items")
    figure = entry.plot(entry.prepare(source))
    assert sorted(s.x0 for s in figure.layout.shapes) == pytest.approx(sorted(own.values()))
    assert "by type" in " ".join(a.text for a in figure.layout.annotations)
    flips = figures.rows_at(source, NONE).groupby("type")["flip"].sum()
    assert flips["B"] > 4 * flips["A"]


def test_a_mass_left_open_is_the_study_s_also_in_reports_that_wrote_zero_for_it(tmp_path):
    """A report of an earlier version holds 0.0 where no mass was chosen; a script of one passes it."""
    for name, mass, said in (("open", None, "mass: estimated"), ("set", 0.333, "mass: 0.333")):
        source = Source(audited(two_types(), tmp_path / name, mass=mass))
        entry = entry_of(source, "controls")
        now, before = entry.prepare(source, mass=None), entry.prepare(source, mass=0.0)
        pd.testing.assert_frame_equal(now, before)
        assert now.attrs == before.attrs
        assert entry.values(source)["mass"] == mass
        assert said in entry.caption(now)
        piece = Piece(kind="figure", entry="controls", settings=entry.values(source))
        assert Piece.model_validate_json(piece.model_dump_json()) == piece
    with pytest.raises(InputError, match=r"mass is 1\.5; this run allows a number from 0 to 1"):
        entry.values(source, {"mass": 1.5})


def test_all_types_of_a_split_lie_on_one_map(tmp_path):
    """Two planes of their own would both be centred, and would put strangers side by side."""
    rows = audited(two_types(), tmp_path, within_type=True, umap=True).table("audit")
    shown = rows[rows["split"] == 0]
    assert shown[["pca_x", "pca_y"]].mean().to_numpy() == pytest.approx([0, 0], abs=1e-9)
    assert np.abs(shown.groupby("part")[["pca_x", "pca_y"]].mean().to_numpy()).max() > 0.005
    assert shown[["umap_x", "umap_y", "pca_x"]].notna().all().all()
    assert rows[rows["split"] == 1]["pca_x"].isna().all()


@pytest.mark.parametrize("right", [1.0, 0.0])
def test_a_judge_that_always_or_never_agrees_is_not_known_with_certainty(tmp_path, right):
    folder, _, metrics = run(planted_pairs(40, right=right), tmp_path, splits=2, bootstraps=0, p_ratios=())
    assert not (metrics["upper"] - metrics["lower"] <= 1e-9).any()
    by = metrics[metrics["group"].isna() & (metrics["attack"] == NONE)].drop_duplicates("metric").set_index("metric")
    n = int(by.loc["cons_orig", "n_clusters"])
    assert by.loc["cons_orig", "method"] == WILSON_CLUSTERS
    assert by.loc["cons_orig", "lower"] == pytest.approx(wilson(right * n, n).lower)
    if right:  # nothing is flipped, so no choice differs from another
        assert by.loc["cons_random", "method"] == NO_VARIATION
    assert by.loc["mass_clean", "method"] == WILSON_CLUSTERS
    if right:
        assert folder.manifest()["summary"]["gain"] == {
            "value": 0.0, "lower": None, "upper": None, "method": NO_VARIATION, "n": by.loc["gain", "n"],
        }  # fmt: skip


def test_scores_that_separate_all_verdicts_have_wilsons_bound(tmp_path):
    rows = audited(two_types(6), tmp_path, splits=6, alpha1=1.0, alpha2=1.0).table("metrics")
    auc = rows[rows["metric"].str.startswith("auc_") & (rows["value"].isin([0.0, 1.0]))]
    assert len(auc) > 0
    assert (auc["method"] == SEPARATED).all()
    assert (auc["upper"] - auc["lower"] > 0.1).all()


def test_masses_and_flips_count_the_pairs_that_entered_and_have_bounds(tmp_path):
    found = planted_pairs(60, labelled=0.4)
    folder, _, metrics = run(found, tmp_path, splits=3, bootstraps=0, p_ratios=())
    rows = folder.table("audit")
    seeded = rows[rows["split"] >= 0]
    by = metrics[metrics["group"].isna()].drop_duplicates("metric").set_index("metric")
    positives = seeded[(seeded["role"] != "unlabelled") & seeded["agrees_clean"].notna()]
    assert by.loc["mass_clean", "n"] == positives["comparison_id"].nunique() < 60
    held_back = seeded[seeded["role"] == "unlabelled"]
    assert by.loc["flip_share", "n"] == by.loc["mass_oracle", "n"] == held_back["comparison_id"].nunique()
    assert by.loc["mass_clean", "value"] == pytest.approx(positives.groupby("split")["agrees_clean"].mean().mean())
    for name in ("mass_clean", "mass_oracle"):
        assert by.loc[name, "lower"] < by.loc[name, "value"] < by.loc[name, "upper"]


def test_random_flips_have_the_band_of_their_choice_in_table_figure_and_json(tmp_path):
    folder, _, metrics = run(planted_pairs(), tmp_path, splits=4, bootstraps=0, p_ratios=())
    row = metrics[(metrics["metric"] == "cons_random")].iloc[0]
    assert row["method"] == HYPERGEOMETRIC
    assert row["lower"] < row["value"] < row["upper"]
    held = folder.manifest()["summary"]["cons_random"]
    assert folder.manifest()["summary"]["best_control_chosen"].startswith("on the same pairs")
    assert (held["value"], held["lower"], held["upper"]) == (row["value"], row["lower"], row["upper"])
    found = read_audit(folder.table("audit"), folder.table("transport"))
    rng, made = np.random.default_rng(0), []
    counts = [round((1 - 0.5) * s.path.n_unlabelled) for s in found.splits]
    for _ in range(2000):
        total, seen = np.zeros(len(found.pairs)), np.zeros(len(found.pairs))
        for split, k in zip(found.splits, counts, strict=True):
            after = split.agrees.copy()
            chosen = rng.choice(len(after), k, replace=False)
            after[chosen] = 1 - after[chosen]
            total[split.pair] += after
            seen[split.pair] += 1
        made.append((total[seen > 0] / seen[seen > 0]).mean())
    curve = random_curve(found, [0.5]).iloc[0]
    assert curve["random"] == pytest.approx(np.mean(made), abs=0.003)
    inside = np.mean((np.array(made) >= curve["random_lower"]) & (np.array(made) <= curve["random_upper"]))
    assert inside == pytest.approx(0.95, abs=0.02)
    entry = entry_of(folder, "sensitivity")
    prepared = entry.prepare(folder)
    at = prepared.set_index("mass").loc[0.5]
    assert (at["random_lower"], at["random_upper"]) == (curve["random_lower"], curve["random_upper"])
    drawn = [t for t in entry.plot(prepared).data if t.fill == "toself"]
    assert len(drawn) == 2


def plain_pu() -> Comparisons:
    """30 pairs that people judged and nobody else, 30 that only the judge did."""
    rows = []
    for i in range(60):
        good, bad = f"measured evidence shows {i} as the data agree", f"trust me {i} friend nobody doubts it"
        first, right = i % 2 == 0, i % 3 > 0
        rows.append(
            {"id": f"p{i}", "prompt": f"question {i}", "type": "A", "response_a": good if first else bad,
             "response_b": bad if first else good, "human": ("a" if first else "b") if i < 30 else "",
             "verdict": "" if i < 30 else ("a" if first == right else "b")}
        )  # fmt: skip
    return table(rows)


def test_plain_positive_and_unlabelled_pairs_are_audited_at_a_mass_that_is_set(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_HOME", str(tmp_path / "home"))
    found = plain_pu()
    folder = audited(found, tmp_path, mass=0.6, p_ratios=(0.3,), weights="items", encoders=("words", "words"))
    summary = folder.manifest()["summary"]
    assert (summary["n_unlabelled"], summary["n_splits"], summary["n_flipped"]) == (30, 0, 12)
    assert summary["cons_orig"] is None
    wrong = folder.table("audit").query("role == 'unlabelled'")
    assert (wrong["split"] == -1).all()
    source = Source(folder)
    assert figures.rows_at(source, NONE)["flip"].sum() == 12
    for entry in entries(source):
        entry.plot(entry.prepare(source))
    with pytest.raises(InputError, match=r"mass cannot be estimated.*--set mass=0\.8"):
        audited(found, tmp_path / "again")
    file = tmp_path / "pu.csv"
    texts = found.responses.set_index("response_id")["text"]
    rows = found.comparisons.merge(found.items, on="item_id")
    rows.assign(
        id=rows["comparison_id"], prompt=rows["context"], response_a=rows["response_a"].map(texts),
        response_b=rows["response_b"].map(texts),
    )[["id", "prompt", "response_a", "response_b", "human", "verdict"]].to_csv(file, index=False)  # fmt: skip
    sets = ["--set", 'encoders=["words"]', "--set", "umap=false", "--set", "mass=0.6", "--attack", "none"]
    assert main(["study", "puaudit", "--data", str(file), "--judge", IN_DATA, *sets]) == 0
    shown = capsys.readouterr()
    assert "Consistency cannot be checked" in shown.out
    assert "labels: a is a, b is b" in shown.err


def test_the_command_line_says_undefined_and_that_the_best_control_was_chosen(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_HOME", str(tmp_path / "home"))
    rows = [
        {"id": f"p{i}", "prompt": f"q{i}", "response_a": f"good plain {i}", "response_b": f"bad odd {i}",
         "human": "model_a", "verdict": "model_a"} for i in range(20)
    ]  # fmt: skip
    file = tmp_path / "right.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    sets = ["--set", 'encoders=["words"]', "--set", "umap=false", "--set", "p_ratios=[]", "--attack", "none"]
    assert main(["study", "puaudit", "--data", str(file), "--judge", IN_DATA, *sets]) == 0
    shown = capsys.readouterr()
    assert "auc_entry_mass   undefined" in shown.out
    assert "nan" not in shown.out
    assert "chosen on the same pairs, which favours it" in shown.out
    assert "labels: model_a is a" in shown.err


def test_an_encoder_is_measured_by_its_weights_and_its_texts(tmp_path, tiny):
    _, value, metrics = run(planted_pairs(), tmp_path, splits=2, bootstraps=0, p_ratios=())
    assert value["encoder_memory_gib", NONE, "words"] == 0  # word counts need no model
    own = metrics.set_index("metric")
    assert own.loc["encoder_seconds", "n"] == 160
    assert own.loc["encoder_path_seconds", "n"] == 2
    loaded = tiny("bert")
    held = [*loaded.model.parameters(), *loaded.model.buffers()]
    assert ModelEncoder(loaded).weights_bytes == sum(w.numel() * w.element_size() for w in held) > 0


def test_questions_are_sorted_through_the_api_client_by_a_letter_or_left_unread(tmp_path, monkeypatch):
    answers = {"sort": "A", "add": "**B**", "vague": "A question about nothing", "named": "C: Factual"}

    def script(_, body):
        said = body["messages"][-1]["content"]
        return completion(next(reply for word, reply in answers.items() if f"{word}?" in said))

    with serving(script) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        monkeypatch.setenv("JUDGESCOPE_API_KEY", "k")
        monkeypatch.setenv("JUDGESCOPE_CACHE", str(tmp_path))
        monkeypatch.setenv("JUDGESCOPE_HOME", str(tmp_path))
        settings = get_settings()
        questions = {word: f"{word}?" for word in answers}
        found = classify_by_api(questions, "api:m", settings, no_checkpoint)
        assert found == {
            "sort": "A: Programming", "add": "B: Math or logical reasoning", "vague": UNREAD,
            "named": "C: Factual or knowledge-based question",
        }  # fmt: skip
        asked = len(server.seen)
        assert classify_by_api(questions, "api:m", settings, no_checkpoint) == found
        assert len(server.seen) == asked  # the second time all answers are known


def test_a_filter_that_keeps_nothing_counts_in_words():
    with pytest.raises(InputError, match="keeps none of 1 positive in 1 question type, since"):
        audit(np.ones((1, 3)), np.eye(3)[:1], ["A"], np.eye(3))
    with pytest.raises(InputError, match="keeps none of 2 positives in 2 question types, since"):
        audit(np.ones((2, 3)), np.eye(3)[:2], ["A", "B"], np.eye(3))
