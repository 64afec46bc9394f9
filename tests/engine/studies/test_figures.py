"""Every figure of every recorded run: drawn, captioned, made again by its script, readable on paper and in grey."""

import contextlib
import json
import re
import runpy
import subprocess
import sys
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from engine.core.errors import InputError, RunError
from engine.core.schema import Protocol
from engine.plots.export import COLUMNS, LEAST_PT, PT_PER_PX, fitting, for_print, reduction
from engine.report.content import remake_script
from engine.runs.folder import RunFolder
from engine.studies import registry
from engine.studies.figure import Source
from engine.studies.protocols import figures as protocols
from engine.studies.protocols.leaderboard import board
from engine.studies.registry import all_studies, entries, entry_of, find_run, name_of, recorded_runs, study_of

ROOT = Path(__file__).parents[3]
SOURCES = {name_of(run): Source(run) for run in recorded_runs()}
FIGURES = [(name, entry.name) for name, source in SOURCES.items() for entry in entries(source)]
# settings away from the defaults, so that a setting that is lost on the way shows
OTHER = {
    "forest": {"metric": "relative_shift"},
    "grid": {"metric": "relative_shift"},
    "dumbbells": {"attack": "bed", "most": 7},
    "max_p_cf": {"k": 3, "gamma": 0.03, "arm": "same"},
    "keys": {"gamma": 0.5, "k": 2},
    "frontier": {"delta": 5.0},
    "curve": {"family": "prompt", "threshold": 40.0},
    "density": {"mass": 0.3},
    "items": {"mass": 0.9, "attack": "length"},
    "controls": {"mass": 0.42},
    "ladder": {"ties_are": "wrong", "arm": "prolixity"},
    "slope": {"protocol": "pointwise", "lowest": 1, "rule": "margin", "margin": 0.2},
    "flips": {"rule": "like pairwise"},
    "layers": {"space": "raw"},
    "probes": {"order": 0.31, "agreement": 0.2},
    "scores": {"low": 30, "high": 70},
}


def other(name: str, figure: str) -> dict[str, object]:
    """The settings of `OTHER` that this run allows: one without attacks has none to choose."""
    source, entry = SOURCES[name], entry_of(SOURCES[name], figure)
    allowed = {}
    for key, value in OTHER.get(figure, {}).items():
        with contextlib.suppress(InputError):
            entry.values(source, {key: value})
            allowed[key] = value
    return allowed


def made(name: str, figure: str, **settings):
    source = SOURCES[name]
    entry = entry_of(source, figure)
    usual = entry.values(source, settings) == entry.values(source, {})
    return entry, plain(name, figure).copy() if usual else entry.prepare(source, **settings)


@cache
def plain(name: str, figure: str) -> pd.DataFrame:
    """A figure's table at the default settings, which seven tests look at."""
    source = SOURCES[name]
    return entry_of(source, figure).prepare(source)


@cache
def drawn(name: str, figure: str) -> go.Figure:
    """A figure at the default settings; looked at, never changed."""
    return entry_of(SOURCES[name], figure).plot(plain(name, figure).copy())


@cache
def printed(name: str, figure: str, columns: str) -> go.Figure:
    """The same on paper."""
    return for_print(drawn(name, figure), columns)


@cache
def opened(path: str) -> Source:
    """A run as the scripts of its figures open it, apart from `SOURCES`."""
    return Source(RunFolder(Path(path)))


def test_every_kind_of_study_has_a_recorded_run_that_shows_all_its_figures():
    shown = {(study_of(SOURCES[name]).kind, figure) for name, figure in FIGURES}
    # the claims are decided on public data; their table ships in assets/results and not as a run
    studies = [study for study in all_studies() if study.kind != "claims"]
    assert shown == {(entry.study, entry.name) for study in studies for entry in study.figures()}


@pytest.mark.parametrize(("name", "figure"), FIGURES)
def test_a_caption_says_what_a_number_needs(name, figure):
    entry, table = made(name, figure)
    caption = entry.caption(table)
    manifest = SOURCES[name].manifest
    assert re.search(r"\bn (= )?\d", caption), caption
    assert re.search(r"\b(unread|left out)\b", caption), caption
    assert re.search(r"interval|band", caption, re.IGNORECASE), caption
    assert "recorded on 20" in caption
    assert manifest["judge"]["spec"] in caption
    assert manifest["data"]["name"] in caption
    assert all(setting.title in caption for setting in entry.settings if setting.acts(entry.values(SOURCES[name])))
    assert not re.search(r"<br>|&lt;|nan\b", caption)


@pytest.mark.parametrize(("name", "figure"), FIGURES)
def test_the_script_makes_the_same_figure_from_the_run_folder(name, figure, tmp_path, monkeypatch, capsys):
    settings = entry_of(SOURCES[name], figure).values(SOURCES[name], other(name, figure))
    entry, table = made(name, figure, **settings)
    script = tmp_path / "again.py"
    script.write_text(remake_script(entry, name, settings), encoding="utf-8")
    # plotly.js itself is written into each HTML file; its 5 MB say nothing about the figure
    monkeypatch.setattr(go.Figure, "write_html", lambda self, path: Path(path).write_text("drawn"))
    monkeypatch.setattr(registry, "run_at", opened)  # once for all figures of a run
    monkeypatch.setattr(sys, "argv", ["again.py", str(SOURCES[name].folder.path), str(tmp_path / "out")])
    runpy.run_path(str(script), run_name="__main__")
    again = json.loads((tmp_path / "out" / f"{figure}.json").read_text())
    assert again == json.loads(entry.plot(table, "light").to_json())
    assert capsys.readouterr().out.strip() == entry.caption(table)
    assert len(pd.read_csv(tmp_path / "out" / f"{figure}.csv", encoding="utf-8-sig", dtype=str)) == len(table)


@pytest.mark.parametrize("figure", sorted(OTHER))
def test_a_setting_changes_the_figure(figure):
    name = next(n for n, f in FIGURES if f == figure and other(n, f) == OTHER[f])
    entry, plain = made(name, figure)
    _, changed = made(name, figure, **OTHER[figure])
    assert entry.plot(plain).to_json() != entry.plot(changed).to_json()
    assert entry.caption(plain) != entry.caption(changed)


def test_a_script_runs_on_its_own(tmp_path):
    name = "recorded:refswap/judge"
    entry, table = made(name, "keys", k=3)
    script = tmp_path / "again.py"
    script.write_text(remake_script(entry, name, {"k": 3}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(SOURCES[name].folder.path), "out"],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out/keys.json").read_text()) == json.loads(entry.plot(table, "light").to_json())
    assert "Plotly.newPlot" in (tmp_path / "out/keys.html").read_text()


def test_a_script_holds_settings_as_literals():
    entry = entry_of(SOURCES["recorded:dialogue/run"], "distribution")
    nasty = 'x"""\n\'); import os; os.abort() #'
    text = remake_script(entry, nasty, {"response": nasty})
    scope: dict[str, object] = {}
    exec(compile(text.partition("run = run_at")[0], "again", "exec"), scope)
    assert scope["SETTINGS"] == {"response": nasty}


# --- the numbers are the run's own -----------------------------------------------------------------------------------


def test_shifts_are_those_the_run_stored():
    _, table = made("recorded:dialogue/run", "forest")
    stored = SOURCES["recorded:dialogue/run"].table("metrics")
    stored = stored[stored["metric"] == "shift"].set_index(["attack", "defense"])
    for row in table.itertuples():
        kept = stored.loc[(row.attack, row.defense)]
        np.testing.assert_allclose([row.value, row.lower, row.upper], kept[["value", "lower", "upper"]].tolist())


def test_accepted_keys_are_those_in_the_verdicts():
    source = SOURCES["recorded:refswap/shortcut-verifier"]
    verdicts, samples = source.table("verdicts"), source.table("samples")
    true = verdicts[verdicts["reference_id"].isna() | (verdicts["reference_id"] == "true")]
    test = samples[(samples["dev"] == 0) & (samples["attack"] != "none")]
    own = test.merge(true, on=["item_id", "attack"])
    counted = (own["p_yes"] >= 0.5).groupby(own["attack"]).mean()
    _, table = made("recorded:refswap/shortcut-verifier", "keys")
    np.testing.assert_allclose(np.sort(table["before"]), np.sort(counted))


def test_a_threshold_of_zero_keeps_every_yes_and_one_of_one_nearly_none():
    _, all_of_them = made("recorded:refswap/shortcut-verifier", "keys", gamma=0.0)
    np.testing.assert_allclose(all_of_them["after"], all_of_them["before"])
    _, none = made("recorded:refswap/shortcut-verifier", "keys", gamma=1.0)
    assert none["after"].max() == 0


def test_the_full_mass_flips_nothing():
    _, table = made("recorded:pairs/run", "controls", mass=1.0)
    value = table.set_index("metric")["value"]
    assert value["cons_adj"] == pytest.approx(value["cons_orig"])


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"k": 11}, "from 1 to 10"),
        ({"k": 2.5}, "whole number"),
        ({"k": "many"}, "whole number"),
        ({"gamma": 1.5}, "from 0 to 1"),
        ({"gamma": float("nan")}, "from 0 to 1"),
        ({"arm": "neither"}, "'other', 'same'"),
        ({"mass": 0.5}, "no setting mass; it has: arm, k, delta, gamma, threshold"),
    ],
)
def test_a_setting_that_the_run_does_not_allow_is_refused(settings, said):
    with pytest.raises(InputError, match=re.escape(said)):
        made("recorded:refswap/judge", "max_p_cf", **settings)


def test_a_figure_of_another_study_is_refused():
    with pytest.raises(InputError, match=r"no figure 'keys'.*forest, grid"):
        entry_of(SOURCES["recorded:dialogue/run"], "keys")


def test_a_table_of_another_figure_is_not_drawn():
    entry, _ = made("recorded:refswap/judge", "keys")
    _, other = made("recorded:refswap/judge", "max_p_cf")
    with pytest.raises(InputError, match="its own prepare"):
        entry.plot(other)


def test_an_empty_run_says_why_it_has_no_figure(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_manifest({"study": "refswap", "state": "running", "config": {"arms": ["other"]}})
    assert entries(folder) == []
    with pytest.raises(InputError, match="holds no samples yet"):
        entry_of(folder, "keys").prepare(folder)


def test_a_study_under_any_name_is_known_by_its_settings(tmp_path):
    source = SOURCES["recorded:dialogue/run"]
    renamed = RunFolder(tmp_path)
    renamed.write_table("verdicts", source.table("verdicts"))
    renamed.write_manifest({**source.manifest, "study": "my-own-grid"})
    assert [e.name for e in entries(renamed)] == ["moves", "forest", "grid", "dumbbells", "distribution"]


@pytest.mark.parametrize("name", ["recorded:../../engine", "recorded:dialogue/..", "../x", "recorded:no/run", ""])
def test_a_name_reaches_no_other_folder(name):
    with pytest.raises(RunError):
        find_run(name)


# --- on paper --------------------------------------------------------------------------------------------------------


def sizes(node, key=""):
    """Every size of type in a figure's JSON [px]."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "size" and "font" in key.lower():
                yield float(value)
            yield from sizes(value, name)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from sizes(value, key)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("name", "figure"), FIGURES)
def test_type_is_readable_on_paper(name, figure, columns):
    smallest = min(sizes(printed(name, figure, columns).to_plotly_json()))
    assert smallest * reduction(fitting(drawn(name, figure), columns)) * PT_PER_PX >= LEAST_PT


def lightness(colour: str) -> float:
    """CIE L* of a colour."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    y = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    return 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y


APART = 20.0


def look(trace) -> tuple[object, ...]:
    """What tells a series from another without colour: form, dash, symbol, and whether it is filled."""
    marker, line = trace.marker, getattr(trace, "line", None)
    symbol = getattr(marker, "symbol", None)
    hollow = str(getattr(marker, "color", "")) == "#ffffff" or "open" in str(symbol)
    place = str(trace.y) if trace.type in ("box", "violin") else ""
    dash, width = getattr(line, "dash", None), getattr(line, "width", None)
    return (trace.type, getattr(trace, "mode", ""), str(symbol or "circle"), str(dash or "solid"), hollow, width, place)


def colour_of(trace) -> str:
    """The colour that names the series; the edge of hollow marks."""
    marker, line = trace.marker, getattr(trace, "line", None)
    for found in (getattr(line, "color", None), getattr(marker, "color", None), getattr(marker.line, "color", None)):
        if isinstance(found, str) and found.startswith("#") and found != "#ffffff":
            return found
    return ""


def named_apart(a, b) -> bool:
    """Series that stand on rows of their own, with their names beside them, need no colour."""
    rows = [getattr(t, "name", "") for t in (a, b)]
    return a.type == b.type == "box" and rows[0] != rows[1]


@pytest.mark.parametrize(("name", "figure"), FIGURES)
def test_series_are_told_apart_in_grey(name, figure):
    paper = printed(name, figure, "single")
    shown = [t for t in paper.data if paper.layout.showlegend and t.showlegend is not False and t.name]
    for a, b in combinations(shown, 2):
        if look(a) == look(b) and not named_apart(a, b):
            assert abs(lightness(colour_of(a)) - lightness(colour_of(b))) >= APART, (a.name, b.name, look(a))


@pytest.mark.parametrize(("name", "figure", "colour"), [
    ("recorded:pairs/run", "map", {"colour": "entry mass"}), ("recorded:dialogue/cap", "map", {"colour": "score"}),
])  # fmt: skip
def test_marks_by_a_number_keep_their_order_in_grey(name, figure, colour):
    entry, table = made(name, figure, **colour)
    own = entry.plot(table)
    for fig, ordered in ((own, False), (for_print(own, "double"), True)):
        scales = [fig.layout.coloraxis.colorscale, *(t.marker.colorscale for t in fig.data)]
        for scale in filter(None, scales):
            steps = np.diff([lightness(c) for _, c in scale])
            assert bool(np.all(steps < -APART) or np.all(steps > APART)) is ordered


def test_the_check_for_grey_can_fail():
    one, two = (go.Scatter(mode="markers", marker={"color": c}, name=c) for c in ("#cf4800", "#518753"))
    assert look(one) == look(two)
    assert abs(lightness("#cf4800") - lightness("#518753")) < APART


def test_a_grid_of_many_columns_is_not_squeezed_into_one_column():
    entry, table = made("recorded:dialogue/cap", "grid")
    assert fitting(entry.plot(table), "single") == "single"  # its seven defenses are rows
    square = pd.concat([table.assign(attack=f"{a} {k}", attack_title=f"{a} {k}") for k, a in enumerate("abcdefg")])
    wide = entry.plot(square.drop_duplicates(["attack", "defense"]))
    assert fitting(wide, "single") == "double"
    small, table = made("recorded:dialogue/run", "grid")
    assert fitting(small.plot(table), "single") == "single"
    with pytest.raises(InputError, match="single or double"):
        fitting(wide, "triple")


@pytest.mark.parametrize(("name", "figure"), FIGURES)
def test_panels_of_a_figure_do_not_lie_on_one_another(name, figure):
    layout = drawn(name, figure).layout
    rows = sorted(tuple(layout[key].domain) for key in layout if key.startswith("yaxis") and layout[key].domain)
    assert all(below[1] <= above[0] for below, above in pairwise(rows)), rows


@pytest.mark.parametrize("protocol", ["pairwise", "pointwise"])
def test_another_k_of_the_elo_gives_the_board_computed_from_scratch(protocol):
    source = SOURCES["recorded:protocols/instruction"]
    view = protocols.view_of(protocols.arena(source), protocols.MODAL, 0.0)
    asked = (Protocol(protocol), "assertiveness", 2, view)
    quick = protocols.board_of(source, *asked, "own", 37.0)
    full = board(protocols.arena(source), *asked, chosen_by="own", elo_k=37.0)
    for name in ("elo_before", "elo_after", "before", "after"):
        np.testing.assert_array_equal(getattr(quick, name).rating, getattr(full, name).rating)
    np.testing.assert_array_equal(quick.shift_lower, full.shift_lower)
    other = protocols.board_of(source, *asked, "own")
    assert not np.array_equal(other.elo_before.rating, quick.elo_before.rating)
