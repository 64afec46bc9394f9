"""The whole set under every attack and defense: choose, run as a job, watch, read the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.datasets import lacking, lacking_note
from dashboard.linked_run import latest, shown
from dashboard.minutes import how_long
from dashboard.pages.attack_lab.effects import GridRun, distribution, dumbbells, forest, grid, moves
from dashboard.progress import BUSY, api_cost, pace, progress, start_job, watched_job
from dashboard.ui import show_verbatim
from engine import catalog
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.data.dataset import Dataset
from engine.jobs.manager import Job, manager
from engine.plots.text import count, plural, three_digits
from engine.studies.attack_grid.figures import ALL
from engine.studies.figure import upper_first
from engine.studies.registry import name_of

# Settings of a run over the whole set: attacks, defenses, number of responses, cost.

DEFAULT_ATTACKS = ("dsi", "bed")
DEFAULT_DEFENSES = (NONE, "delimiters", "sandwich")


def setup(judge: str, dataset: Dataset, *, busy: bool, seen: bool) -> None:
    """The Run button with what it costs, and the choices, folded where a run is shown."""
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="run_row")
    price = st.container()
    with st.expander("Which attacks and defenses", expanded=not seen, key="setup", icon=":material/tune:"):
        left, right = st.columns(2, gap="medium")
        with left:
            attacks = _attacks()
            own_text = _own_text() if _has_own(attacks) else ""
            limit = _limit(len(dataset.responses))
        with right:
            defenses = _defenses(dataset.dataset_id)
            ui.note(lacking_note(dataset.dataset_id))
    calls = limit * (1 + len(attacks)) * len(defenses)
    missing = _missing(attacks, defenses, own_text)
    params = {
        "judge": judge,
        "data": dataset.dataset_id,
        "attacks": attacks,
        "defenses": defenses,
        "own_text": own_text,
        "limit": limit,
    }
    with row:
        run = st.button("Run", type="primary", icon=":material/play_arrow:", key="run", disabled=busy or bool(missing))
        ui.note(missing or _cost(judge, dataset.dataset_id, limit, attacks, defenses, calls, busy=busy))
        if not missing and not busy:
            how_long(GridRun.kind, params)
    with price:
        ui.note(api_cost(judge, dataset, calls))
    if run:
        start_job("score", params, "The run could not be started.", state.watch_job)


def _attacks() -> list[str]:
    names = [name for name in catalog.ATTACKS if name != NONE]
    if (shown := _shown_in_one_response()) not in (NONE, *names):
        names.append(shown)
    return list(
        st.pills(
            "Attacks",
            names,
            selection_mode="multi",
            default=[n for n in DEFAULT_ATTACKS if n in names],
            format_func=findings.attack_name,
            key=state.SET_ATTACKS,
            help=_abouts([catalog.describe_attack(n) for n in names]),
            persist_state="session",
            wrap=True,
        )
    )


def _shown_in_one_response() -> str:
    """The attack with its options as it is set beside; so it can be run over the whole set too."""
    try:
        return catalog.parse_attack(st.query_params.get(state.ATTACK, NONE)).name
    except InputError:
        return NONE


def _defenses(dataset_id: str) -> list[str]:
    missing = lacking(dataset_id)
    names = [name for name in catalog.DEFENSES if name not in missing]
    if held := st.session_state.get(state.SET_DEFENSES):
        state.put(state.SET_DEFENSES, [name for name in held if name not in missing])
    if (shown := _defense_in_one_response()) not in names:
        names.append(shown)
    return list(
        st.pills(
            "Defenses",
            names,
            selection_mode="multi",
            default=[d for d in DEFAULT_DEFENSES if d in catalog.DEFENSES],
            format_func=lambda d: catalog.describe_defense(d).title,
            key=state.SET_DEFENSES,
            help=_abouts([catalog.describe_defense(n) for n in names]),
            persist_state="session",
            wrap=True,
        )
    )


def _defense_in_one_response() -> str:
    """The defenses as they are set beside, so that they can be run over the whole set too."""
    try:
        return catalog.describe_defense(st.query_params.get(state.DEFENSE, NONE)).name
    except InputError:
        return NONE


def _abouts(cards: Sequence[catalog.AttackCard | catalog.DefenseCard]) -> str:
    """Meaning of each choice, as a list for the question mark beside the label."""
    return "\n".join(f"- **{ui.plain(card.title.partition(':')[0])}** {ui.plain(card.about)}" for card in cards)


def _own_text() -> str:
    return str(st.text_area("Your text", key="set_own_text", height=80, persist_state="session") or "")


def _has_own(attacks: list[str]) -> bool:
    return any(name.partition("@")[0] == "own" for name in attacks)


def _limit(n: int) -> int:
    if n < 2:
        return n
    key = f"{state.SET_LIMIT}_{state.text(state.DATA)}"
    return int(st.slider("Responses, from the top of the file", 1, n, value=n, key=key, persist_state="session"))


def _missing(attacks: list[str], defenses: list[str], own_text: str) -> str:
    if not attacks:
        return "Choose at least one attack."
    if not defenses:
        return "Choose at least one defense; “No defense” is the judge's own prompt."
    if _has_own(attacks) and not own_text.strip():
        return "Type the text of your own attack, or take that attack out."
    return ""


def _cost(
    judge: str,
    dataset_id: str,
    limit: int,
    attacks: list[str],
    defenses: list[str],
    calls: int,
    *,
    busy: bool,
) -> str:
    if busy:
        return BUSY
    arms = (1 + len(attacks)) * len(defenses)
    text = f"{plural(limit, 'response')} × {arms} combinations = {calls:,} judge calls"
    per_call = _pace(judge, dataset_id)
    return f"{text}, about {findings.duration(calls * per_call)} at the last pace." if per_call else f"{text}."


def _pace(judge: str, dataset_id: str) -> float:
    """Seconds a call took in the last run made on this machine; 0 if there is none."""
    last = latest(GridRun, judge, dataset_id)
    if last is None or last.recorded:
        return 0.0
    return pace(last.verdicts)


# One record of a run, in a drawer on the right.


def record(view: GridRun, dataset: Dataset, response_id: str, attack: str, defense: str) -> None:
    """Open the drawer; closing it clears the table's selection."""
    title = ui.plain(f"Response {response_id}")
    drawer = st.dialog(title, width="medium", position="right", on_dismiss=state.close_record)
    drawer(_body)(view, dataset, response_id, attack, defense)


def _body(view: GridRun, dataset: Dataset, response_id: str, attack: str, defense: str) -> None:
    clean, attacked = view.verdict(response_id, NONE, defense), view.verdict(response_id, attack, defense)
    result = {"labels": view.labels, "clean": clean, "attacked": attacked}
    ui.finding(findings.one_sentence(result, attack, defense))
    row = dataset.responses.set_index("response_id").loc[response_id]
    ui.facts(_facts(row, attacked))
    if clean["probabilities"] or attacked["probabilities"]:
        note = findings.origin(view.manifest, recorded=view.recorded)
        distribution(view.labels, clean, attacked, attack, key="record_distribution", note=note)
    ui.note("The response, without the attack")
    show_verbatim(str(row["text"]), label="The response")
    context = dataset.items.set_index("item_id").loc[row["item_id"], "context"]
    if isinstance(context, str) and context:
        ui.note("What it answers")
        show_verbatim(context, label="The context")
    if st.button("Open in the live view", icon=":material/bolt:", key="open_live"):
        own_text = str(view.manifest.get("config", {}).get("own_text") or "")
        for key, arm in ((state.ATTACK, attack), (state.DEFENSE, defense)):
            st.session_state.pop(key, None)  # read from the address anew, with all their options
            st.query_params[key] = arm
        state.after_rerun({state.RESPONSE: response_id, state.OWN_TEXT: own_text, state.TAB: state.TAB_ONE})
        state.close_record()
        st.rerun()


def _facts(row: pd.Series, attacked: dict[str, Any]) -> dict[str, str]:
    facts = {"Item": str(row["item_id"])}
    if isinstance(row["system"], str):
        facts["System"] = row["system"]
    if pd.notna(row["human_score"]):
        facts["Human score"] = three_digits(float(row["human_score"]))
    if attacked["prompt_tokens"]:
        facts["Prompt"] = f"{attacked['prompt_tokens']} tokens"
    return facts


# The result of a run: the grid of arms, one arm up close, its records worst first.

MOST_MOVED = 20
MOST_ROWS = 1_000
_TEXT_SHOWN = 300
"""Characters of a response in the table; the drawer has all of it."""


def results(view: GridRun, dataset: Dataset, *, live: bool) -> None:
    """Results so far; while the run is going the records do not open, since the table is redrawn."""
    headline, rest = findings.run_sentences(view.metrics, findings.judge_name(view.judge))
    ui.headline(headline)
    if view.manifest.get("state") != "done":
        ui.note(f"{upper_first(findings.origin(view.manifest, recorded=view.recorded))}.")
    if warning := findings.unread_warning(view.metrics):
        ui.warn(warning)
    attacks = list(dict.fromkeys(view.shifts["attack"]))
    arms = len(view.shifts[["attack", "defense"]].drop_duplicates())
    strongest = findings.strongest_arm(view.metrics)[0]
    shown = ALL
    if arms > MOST_ROWS_AT_ONCE and strongest in attacks:
        shown = ui.pick("Attack", attacks, key="set_shown", default=strongest, title=findings.attack_name)
    moves(view, shown, key="set_moves")
    _one_arm(view, dataset, live=live)
    ui.measured(
        [
            f"{upper_first(findings.provenance(view.manifest, recorded=view.recorded))}.",
            rest,
            findings.arm_details(view.metrics, *findings.strongest_arm(view.metrics)),
            "The gain of an attack is the score with it minus the score without it, under the same defense. Intervals "
            "treat all responses to one item as one observation.",
        ],
        lambda: _overview(view),
        key="set",
    )


MOST_ROWS_AT_ONCE = 9
"""Rows of the figure of all attacks; with more, one attack at a time is shown."""


def _overview(view: GridRun) -> None:
    """Grid and forest, one below the other."""
    grid(view, key="set_grid")
    forest(view, key="set_forest")


def _one_arm(view: GridRun, dataset: Dataset, *, live: bool) -> None:
    arms = view.shifts[["attack", "defense"]].drop_duplicates()
    options = [f"{a}|{d}" for a, d in arms.itertuples(index=False, name=None)]
    if not options:
        return
    st.subheader("Response by response", anchor=False)
    strongest = "|".join(findings.strongest_arm(view.metrics))
    arm = ui.pick(
        "Attack and defense",
        options,
        key=state.ARM,
        default=strongest,
        title=lambda o: findings.arm_name(*o.split("|", 1)),
    )
    attack, defense = arm.split("|", 1)
    ui.note(findings.arm_sentence(view.metrics, attack, defense))
    left, right = st.columns(2, gap="large")
    with left:
        dumbbells(view, attack, defense, key="set_dumbbells", most=MOST_MOVED)
    with right:
        _worst_first(view, dataset, attack, defense, live=live)


def _worst_first(view: GridRun, dataset: Dataset, attack: str, defense: str, *, live: bool) -> None:
    arm = view.shifts[(view.shifts["attack"] == attack) & (view.shifts["defense"] == defense)]
    worst = arm.sort_values("shift", key=lambda s: s.abs(), ascending=False, na_position="last", kind="stable")
    table = _table(worst.head(MOST_ROWS), dataset)
    ids = worst["response_id"].tolist()[:MOST_ROWS]
    which = "All responses" if len(ids) == len(worst) else f"The first {count(len(ids))} responses"
    how = "Records open when the run has ended." if live else "Select a row to open its record."
    ui.note(f"{which}, most moved first. {how}")
    key = f"records_{state.table_round()}_{arm['attack'].iloc[0]}_{arm['defense'].iloc[0]}"
    options = {"on_select": "ignore"} if live else {"on_select": _opener(key, ids), "selection_mode": "single-row"}
    st.dataframe(
        table,
        key=key,
        hide_index=True,
        height=min(600, 40 + 35 * len(table)),
        placeholder="",
        alt=f"Responses by size of shift under {findings.arm_name(attack, defense)}",
        column_config={
            name: st.column_config.NumberColumn(format="%.2f", width="small") for name in ("Shift", "Without", "With")
        },
        **options,
    )
    origin = upper_first(findings.provenance(view.manifest, recorded=view.recorded))
    ui.table_bar(
        worst, title=f"Responses by size of shift under {findings.arm_name(attack, defense)}",
        about=f"{origin}. Run {name_of(view.source.folder)}.",
        key="records", shown=table, file=f"records_{attack}_{defense}.csv",
    )  # fmt: skip
    if not live and (opened := state.take_record()) and opened in ids:
        record(view, dataset, opened, attack, defense)


def _opener(key: str, ids: list[str]):  # noqa: ANN202
    def open_selected() -> None:
        rows = st.session_state[key]["selection"]["rows"]
        if rows and rows[0] < len(ids):
            state.open_record(ids[rows[0]])

    return open_selected


def _table(worst: pd.DataFrame, dataset: Dataset) -> pd.DataFrame:
    table = worst.merge(dataset.responses[["response_id", "system", "text"]], on="response_id", how="left")
    table["text"] = table["text"].str.slice(0, _TEXT_SHOWN)
    table = table.rename(
        columns={
            "response_id": "Response",
            "shift": "Shift",
            "clean": "Without",
            "attacked": "With",
            "system": "System",
            "unread_reason": "Unread",
            "text": "Text",
        }
    )
    shown = ["Response", "Shift", "Without", "With", "Unread", "System", "Text"]
    return table[[c for c in shown if table[c].notna().any()]]


PARTIAL_POLL_S = 2.0


def whole_set(judge: str, dataset: Dataset) -> None:
    """Results first where there are any; the choices for a new run above them."""
    job = _watched(judge, dataset.dataset_id)
    busy = bool(job and job.active)
    setup(judge, dataset, busy=busy, seen=latest(GridRun, judge, dataset.dataset_id) is not None)
    if job:
        progress(job)
    job_id = job.job_id if job else ""
    st.fragment(_results, run_every=PARTIAL_POLL_S if busy else None)(judge, dataset, job_id)


def _watched(judge: str, dataset_id: str) -> Job | None:
    """The run that is watched here; the address keeps its id, or loses one that is about something else."""
    job = watched_job("score", judge=judge, data=dataset_id)
    if job or state.job_id():
        state.watch_job(job.job_id if job else "")
    return job


def _results(judge: str, dataset: Dataset, job_id: str) -> None:
    job = manager().get(job_id) if job_id else None
    view = shown(GridRun, judge, dataset.dataset_id, job)
    if view is None:
        if job and job.active:
            ui.note("The first results appear here after a few responses.")
        else:
            ui.nothing_yet("This judge has not been run on this data here yet. Choose attacks and defenses, then Run.")
        return
    results(view, dataset, live=bool(job and job.active))
