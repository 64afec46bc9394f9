"""Which corrected number is shown, and a new one: of a file of verdicts with labels, or of a run with human scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import datasets, findings, state, ui
from dashboard.linked_run import TITLES, runs_of
from dashboard.pages.trust.numbers import TrustRun
from dashboard.progress import start_job
from dashboard.run_view import load, read
from dashboard.uploads import MAX_UPLOAD_MB
from engine.core.errors import EngineError
from engine.core.files import safe_csv
from engine.core.settings import get_settings
from engine.data.labelled import ALIASES, REQUIRED, Labelled, labelled_of, save_labelled
from engine.data.labels import export_table, list_plans, open_session
from engine.data.mapping import known_right
from engine.data.raw import RawTable
from engine.data.reading import read_table
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.runs.library import RunRow, all_runs, is_recorded
from engine.studies.figure import upper_first

DEMO = "recorded:llmbar/trust"
SHOWN = "trust_made"
"""The job whose run was shown once when it was done."""
FILE, RUN, SESSION = "A file", "A run", "A labelling session"
LABELS_PAGE = "pages/labelling/page.py"
_JUDGED = ("attack_grid", "score", "grid", "verify", "protocols", "puaudit", "recorded")
"""Studies whose runs hold a judge's verdicts."""
_MOST = 40
_STRONGEST = "Strongest attack: all attacked rows pass"
FEWEST = 2
"""Labels without which the study says nothing."""
_KINDS = ["csv", "tsv", "txt", "xlsx", "json", "jsonl", "parquet"]


def trust_runs() -> dict[str, TrustRun]:
    """The runs that can be read, the user's newest first, then the recorded ones."""
    found: dict[str, TrustRun] = {}
    for run_id in sorted(runs_of(TrustRun.kind, "", ""), key=is_recorded):
        try:
            run = load(TrustRun, run_id)
        except EngineError:
            continue  # the page Runs says what is wrong with it
        if run and len(found) < _MOST:
            found[run_id] = run
    return found


def choose_run(found: Mapping[str, TrustRun], data_id: str, job: Job | None, banner: DeltaGenerator) -> TrustRun | None:
    """The run that is shown: that of a link or of the last job, else the recorded demo.

    Args:
        found: from `trust_runs`.
        data_id: the data of the rail.
        job: the newest one; its run is shown once it is done.
        banner: says that the demo is shown and not the user's data.
    """
    if not found:
        return None
    made = str(job.params.get("run_id", "")) if job and job.state == "done" else ""
    if made in found and st.session_state.get(SHOWN) != made:
        state.put(SHOWN, made)
        state.choose(state.TRUST, made)
    default = DEMO if DEMO in found else next(iter(found))
    state.follow_default(state.TRUST, default)
    if len(found) > 1 or st.query_params.get(state.TRUST):
        name = ui.pick(
            "Verdicts with labels", list(found), key=state.TRUST, title=lambda one: _title(found[one]),
            default=default, publish=True, on_change=lambda: state.chosen(state.TRUST),
        )  # fmt: skip
    else:
        name = default
    if asked := state.unknown(state.TRUST):
        ui.note(f"The link asks for the run {asked!r}, which is not on this machine.")
    run = found[name]
    if run.recorded and not data_id.startswith("demo-"):
        called = datasets.titles().get(data_id, data_id)
        with banner:
            ui.banner(f"You see the demo, not “{called}”. Press “Use my labels”.", key="trust")
    return run


def _title(run: TrustRun) -> str:
    when = "recorded" if run.recorded else str(run.manifest.get("finished") or "")[:16].replace("T", " ")
    return f"{run.title or run.about.get('name') or run.run_id} ({when})"


# A new one.


@dataclass(frozen=True)
class Given:
    """What a run is made of.

    Attributes:
        need: its labels, in words for `ui.needs`.
        data: what the study takes, saved first where `found` holds it.
        found: rows of a file.
        pass_at: least score that passes; None where scores stay.
        under: verdicts of the same rows under attack, saved first; None for those of a run, or the strongest.
        attack: arm of the run `data` whose verdicts stand for an attack; empty for none.
    """

    need: ui.Need
    data: str
    found: Labelled | None = None
    pass_at: float | None = None
    under: Labelled | None = None
    attack: str = ""


def setup(*, busy: bool) -> None:
    """At the top right: verdicts and labels of one's own, what they lack, and the button that corrects the number."""
    sessions = {str(about["plan_id"]): about for about in list_plans(get_settings().labels)[:_MOST]}
    with st.popover("Use my labels", icon=":material/upload:", key=state.TRUST_BOX, disabled=busy, on_change="rerun"):
        ways = [FILE, RUN, *([SESSION] if sessions else [])]
        come = st.session_state.get(state.TRUST_SESSION) in sessions
        way = st.segmented_control(
            "Labels are in", ways, default=SESSION if come else FILE, required=True, key="trust_way"
        )
        given = _of_session(sessions) if way == SESSION and sessions else _of_file() if way == FILE else _of_run()
        if given is None:
            ui.needs([_need("verdicts, some of them with people's labels", 0)], key="trust")
        elif ui.needs([given.need], key="trust") and st.button(
            "Correct the number", type="primary", icon=":material/play_arrow:", key="trust_run"
        ):
            _start(given)


def _need(what: str, labels: int, there: str = "") -> ui.Need:
    place = LABELS_PAGE if LABELS_PAGE in TITLES else "pages/data/page.py"
    mends = (ui.Mend("Label responses", partial(st.switch_page, place)), ui.Mend("Use the demo", _use_demo))
    return ui.Need(what, labels >= FEWEST, there, mends=mends)


def _use_demo() -> None:
    state.after_rerun({state.TRUST: DEMO})
    st.rerun()


def _start(given: Given) -> None:
    try:
        for found in filter(None, (given.found, given.under)):
            save_labelled(found, get_settings().labelled)
    except EngineError as error:
        ui.show_error(error, "The labels could not be kept.")
        return
    params = {"data": given.data} | ({} if given.pass_at is None else {"pass_at": given.pass_at})
    if given.attack or given.under:
        params |= {"attacked": given.under.set_id if given.under else given.data, "attack": given.attack}
    start_job(TrustRun.kind, params, "The number could not be corrected.")


def _of_file() -> Given | None:
    found = _uploaded("Verdicts with labels, one row each", "Columns verdict and label; a label that nobody gave stays "
                      "empty.", key="trust_file")  # fmt: skip
    if found is None:
        with st.expander("Details: which columns are understood"):
            st.table({field: ", ".join(names) for field, names in ALIASES.items()}, border="horizontal")
        return None
    labels = int(found.rows["label"].notna().sum())
    need = _need("labels of people", labels, f"{labels:,} of {plural(len(found.rows), 'row')}")
    least = _pass_at(found)
    under = _uploaded("The same rows under attack (optional)", "Same ids, verdicts of the attacked responses. Without "
                      "it all attacked rows pass.", key="trust_under")  # fmt: skip
    return Given(need, found.set_id, found, least, under)


def _uploaded(label: str, about: str, *, key: str) -> Labelled | None:
    """The rows of a file, said in one line; None before there is one, or where it cannot be used."""
    held = st.file_uploader(label, type=_KINDS, max_upload_size=MAX_UPLOAD_MB, key=key, help=about)
    if held is None:
        return None
    content = held.getvalue()
    try:
        raw = _raw(held.name, datasets.digest(content), content)
        found = labelled_of(Path(held.name).name, raw, _columns(raw, key))
    except EngineError as error:
        ui.show_error(error, "This file cannot be used as it is.")
        return None
    read = ", ".join(f"{spelled} is {value}" for spelled, value in found.spellings.items())
    ui.note(f"{found.counts()}.{f' Read: {read}.' if read else ''}")
    return found


@st.cache_resource(max_entries=4, show_spinner="Reading the file …")
def _raw(name: str, content_digest: str, _content: bytes) -> RawTable:
    del content_digest  # part of the cache key only
    return read_table(name, _content)


def _columns(raw: RawTable, key: str) -> dict[str, str]:
    """Columns that the user names for verdict and label, where none is called so."""
    names = [str(name) for name in raw.frame.columns]
    lower = {name.strip().casefold() for name in names}
    lacking = [field for field in REQUIRED if not lower & set(ALIASES[field])]
    words = {"verdict": "Column of the judge's verdict", "label": "Column of people's label"}
    return {field: ui.pick(words[field], names, key=f"{key}_{field}", title=str, default=names[0]) for field in lacking}


def _of_session(sessions: Mapping[str, Mapping[str, Any]]) -> Given | None:
    """Labels given on the page Label, each row with the chance that it was drawn, beside the verdicts of its plan."""
    held = datasets.titles()
    name = ui.pick(
        "Session", list(sessions), key=state.TRUST_SESSION, default=next(iter(sessions)),
        title=lambda one: f"{held.get(sessions[one]['data'], sessions[one]['data'])} ({sessions[one]['created'][:16]})",
    )  # fmt: skip
    what = "labels of people on rows with a judge's verdict"
    try:
        session = open_session(name, get_settings().labels)
        table = export_table(session)
        if table["verdict"].isna().all():
            return Given(_need(what, 0, "this session was planned without a judge's run"), "")
        raw = read_table(f"labels-{name}.csv", safe_csv(table))
        found = labelled_of(f"labels of {held.get(session.plan.data, session.plan.data)}", raw, {})
    except EngineError as error:
        ui.show_error(error, "These labels cannot be used.")
        return None
    ui.note(f"{found.counts()}.")
    labels = int(found.rows["label"].notna().sum())
    need = _need(what, labels, f"{labels:,} of {plural(len(found.rows), 'row')}")
    return Given(need, found.set_id, found, _pass_at(found))


def _pass_at(found: Labelled) -> float | None:
    """The least score that passes: asked for where scores stand beside labels of pass and fail."""
    if found.kind != "scale":
        return None
    labels = found.rows["label"].dropna()
    apart = bool(labels.isin([0.0, 1.0]).all()) and float(found.rows["verdict"].max()) > 1
    middle = float(np.nanmedian(found.rows["verdict"])) if apart else None
    return st.number_input(
        "A score passes from" if apart else "A score passes from (empty: means of scores)", value=middle, format="%g",
        key=f"trust_pass_{found.set_id}", width=320,
    )  # fmt: skip


def _of_run() -> Given | None:
    rows = candidates()
    if not rows:
        return None
    by_id = {row.run_id: row for row in rows}
    name = ui.pick(
        "Run whose data have human scores", list(by_id), key="trust_of_run", title=lambda one: _row_title(by_id[one]),
        default=rows[0].run_id,
    )  # fmt: skip
    labels = labels_of(by_id[name].data_id)
    need = _need("human scores or preferences", labels, plural(labels, "label"))
    attacks = [str(one) for one in read(name).manifest["config"].get("attacks") or ()]
    if not attacks or by_id[name].data_id in datasets.pair_sets():
        return Given(need, name)
    attack = ui.pick(
        "Attacked verdicts", [*attacks, _STRONGEST], key=f"trust_attack_{name}", default=attacks[0],
        title=lambda one: _STRONGEST if one == _STRONGEST else upper_first(findings.attack_name(one)),
    )  # fmt: skip
    return Given(need, name, attack="" if attack == _STRONGEST else attack)


def candidates() -> list[RunRow]:
    """Finished runs with a judge's verdicts on data that people scored or compared, the user's first."""
    settings = get_settings()
    rows = all_runs(settings.runs, settings.assets / "demo")
    done = [r for r in rows if r.judge and r.state == "done" and r.study in _JUDGED]
    return [r for r in done if labels_of(r.data_id) >= FEWEST][:_MOST]


def labels_of(data_id: str) -> int:
    """How many responses or pairs of a data set people scored; 0 where it is not on this machine."""
    try:
        if data_id in datasets.pair_sets():
            return int(datasets.pairs(data_id).comparisons["human"].notna().sum())
        held = datasets.dataset(data_id)
        return int(held.responses["human_score"].notna().sum()) or len(known_right(held))
    except EngineError:
        return 0


def _row_title(row: RunRow) -> str:
    who = findings.judge_name(row.judge).removeprefix("the ")
    return f"{who} on {row.data} ({'recorded' if row.recorded else row.begun[:16].replace('T', ' ')})"
