"""Two runs as a drift gate: what moved beyond retest noise, with thresholds to choose, and the commands for it."""

from __future__ import annotations

import shlex

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.run_view import RunView, read, version_of
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.plots.drift import plot_drift, prepare_drift
from engine.plots.text import plural
from engine.runs import library
from engine.runs.drift import MAX_FLIPS, MAX_SHIFT, Answers, Drift, find_drift, title_of
from engine.runs.frozen import same_texts

SHIFT, FLIPS, RETEST, NOBODY = "drift_shift", "drift_flips", "drift_retest", ""


def drift(first: RunView, second: RunView) -> None:
    """Verdict, figure, what differs, and the commands that make it a gate."""
    shift, flips, retest = _controls(first, second)
    try:
        runs = [first, second, *([read(retest)] if retest else [])]
        found = _found(tuple(r.run_id for r in runs), tuple(version_of(r.manifest) for r in runs), shift, flips)
    except EngineError as error:
        ui.show_error(error, "The drift cannot be told.")
        return
    ui.finding(found.sentence())
    _numbers(found)
    if len(found.rows):
        rows = prepare_drift(found.rows, [title_of(row) for row in found.rows.to_dict("records")])
        about = f"{first.run_id} → {second.run_id}"
        ui.show_figure(lambda mode: plot_drift(rows, mode=mode, note=about), rows, key="drift_figure")
    _details(found)
    with st.expander("As a gate in a pipeline", icon=":material/terminal:"):
        ui.note("Freeze once, ask later: exit code 4 is a drift, 3 cannot tell, 0 none seen.")
        run = shlex.quote(first.run_id)
        options = f"--ask --max-shift {shift:g} --max-flips {flips:g} --json"
        st.code(
            f"judgescope drift freeze {run} --out frozen.json --again 1\njudgescope drift frozen.json {options}",
            language="bash", wrap_lines=True,
        )  # fmt: skip


def _controls(first: RunView, second: RunView) -> tuple[float, float, str]:
    left, middle, right = st.columns([1, 1, 2], gap="medium", vertical_alignment="bottom")
    state.seed_number(SHIFT, 0.01, 4.0, MAX_SHIFT)
    state.seed_number(FLIPS, 1.0, 100.0, 100 * MAX_FLIPS)
    shift = left.number_input("Tolerated shift, points", 0.01, 4.0, step=0.05, key=SHIFT)
    flips = middle.number_input("Tolerated flips, %", 1.0, 100.0, step=1.0, key=FLIPS)
    others = _askings(first, second)
    titles = {NOBODY: "not asked again", **others}
    with right:
        state.seed(RETEST, list(titles), NOBODY)
        retest = ui.pick(
            "The first run asked again", list(titles), key=RETEST, title=lambda run_id: titles.get(run_id, run_id),
            help="Another run of the same judge on the same data. Its differences are retest noise.",
        )  # fmt: skip
    return float(shift), float(flips) / 100, retest


def _askings(first: RunView, second: RunView) -> dict[str, str]:
    """Other runs of the first run's judge on its data, by id."""
    judge, data = (
        str((first.manifest.get(part) or {}).get(k) or "") for part, k in (("judge", "spec"), ("data", "name"))
    )
    rows = library.all_runs(get_settings().runs, get_settings().assets / "demo")
    return {
        r.run_id: r.name
        for r in rows
        if r.judge == judge and r.data == data and r.run_id not in (first.run_id, second.run_id)
    }


@st.cache_resource(max_entries=16, show_spinner="Comparing")
def _found(ids: tuple[str, ...], versions: tuple[str, ...], shift: float, flips: float) -> Drift:
    del versions  # part of the cache key only
    sides = [
        Answers(view.title or view.run_id, view.manifest, view.folder.table("verdicts")) for view in map(read, ids)
    ]
    base = Answers(sides[0].name, sides[0].manifest, sides[0].verdicts, tuple(s.verdicts for s in sides[2:]))
    same = same_texts(base, sides[1], get_settings())
    return find_drift(base, sides[1], max_shift=shift, max_flips=flips, same=same)


def _numbers(found: Drift) -> None:
    kappa = found.agreement
    about = {"Calls of both": f"{found.matched:,}", "Same verdict": f"{kappa.observed:.1%}" if found.matched else "–"}
    if sum(found.retest):
        about["Flip when asked again"] = f"{found.retest_flips:.1%}"
    ui.facts(about)


def _details(found: Drift) -> None:
    changed = found.named_changes()
    with st.expander(f"{plural(len(found.rows), 'quantity').replace('quantitys', 'quantities')} and what differs"):
        names = [
            "verdict",
            "value_base",
            "value_new",
            "value",
            "lower",
            "upper",
            "threshold",
            "band",
            "detectable",
            "n",
        ]
        table = pd.DataFrame(found.rows[names])
        table.insert(0, "quantity", [title_of(row) for row in found.rows.to_dict("records")])
        st.dataframe(table, key="drift_rows", hide_index=True, placeholder="", alt="Quantities of the drift")
        ui.bullets(changed or ["No judge, prompt, data or device differs."])
        for remark in found.remarks:
            ui.note(remark)
        ui.note("Detectable: the change that would have been found in 80 % of cases.")
