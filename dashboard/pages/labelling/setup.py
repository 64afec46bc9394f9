"""The data, the session and the person who labels; and the form that makes a new plan."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from dashboard import datasets, linked_run, state, ui
from dashboard.run_view import read
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.data.comparisons import Comparisons
from engine.data.dataset import Dataset
from engine.data.label_plan import DISAGREEMENT, UNCERTAINTY, Kind, Plan, Scale, make_plan
from engine.data.labels import Session, list_plans, open_session, save_plan
from engine.plots.text import plural
from engine.runs.labelling import MOST_JUDGES, population

SESSION, ANNOTATOR = "labels", "annotator"
"""In the session and the address: which plan is labelled, and by whom; so that a reload goes on."""
KIND, PROBLEM = "label_kind", "label_problem"
DEFAULT_ROWS = 50


@dataclass(frozen=True)
class Shown:
    """What can be labelled.

    Attributes:
        id: of the data set or the set of pairs.
        name: its title.
        held: itself.
    """

    id: str
    name: str
    held: Dataset | Comparisons

    @property
    def paired(self) -> bool:
        """True for pairs."""
        return isinstance(self.held, Comparisons)

    @property
    def size(self) -> int:
        """Rows that could be labelled."""
        return len(self.held.comparisons if isinstance(self.held, Comparisons) else self.held.responses)

    def texts(self, row: str) -> tuple[str, list[str]]:
        """The context of a row, and its response, or both responses of a pair in the data's order."""
        held = self.held
        if isinstance(held, Comparisons):
            pair = held.comparisons.set_index("comparison_id").loc[row]
            ids = [str(pair["response_a"]), str(pair["response_b"])]
        else:
            ids = [row]
        responses = held.responses.set_index("response_id")
        context = held.items.set_index("item_id")["context"].get(str(responses["item_id"][ids[0]]))
        texts = [responses["text"][one] for one in ids]
        return context if isinstance(context, str) else "", [text if isinstance(text, str) else "" for text in texts]


def choices(plan: Plan, row: str = "") -> list[tuple[str, str, str]]:
    """Label, words and key of each button; of a pair in the words of the sides as they are shown."""
    scale = plan.scale
    if scale.kind == Kind.PASS:
        return [("pass", "Pass", "y"), ("fail", "Fail", "n")]
    if scale.kind == Kind.RATING:
        return [(label, label, label[-1]) for label in scale.labels]
    sides = ("b", "a") if row and plan.swapped(row) else ("a", "b")
    words = ("First is better", "Second is better", "About the same")
    return [(label, name, str(i)) for i, (label, name) in enumerate(zip((*sides, "tie"), words, strict=True), start=1)]


def opened(data_id: str) -> Shown | None:
    """The chosen data; None, with the reason on the page, where they cannot be labelled."""
    held: Dataset | Comparisons
    try:
        held = datasets.pairs(data_id) if data_id in datasets.pair_sets() else datasets.dataset(data_id)
    except EngineError as error:
        ui.show_error(error, "The chosen data cannot be opened.")
        return None
    if isinstance(held, Comparisons) and not held.has_texts:
        ui.nothing_yet(
            f"“{held.name}” ships without its texts, so there is nothing to read. Choose other data on the left.",
            "pages/data/page.py", "Data",
        )  # fmt: skip
        return None
    return Shown(data_id, datasets.titles().get(data_id, held.name), held)


def chosen_session(data_id: str) -> Session | None:
    """The session of these data that the address or this page's user names; None where there is none."""
    if SESSION not in st.session_state:
        st.session_state[SESSION] = st.query_params.get(SESSION, "")
    plan_id = state.text(SESSION)
    session = None
    if plan_id:
        try:
            found = open_session(plan_id, get_settings().labels)
            session = found if found.plan.data == data_id else None
        except EngineError as error:
            ui.show_error(error, "The labelling session cannot be opened.")
    if session is None:
        state.put(SESSION, "")
    state.publish(SESSION, session.plan.plan_id if session else "")
    return session


def annotator() -> str:
    """Who labels; empty while nobody said so."""
    if ANNOTATOR not in st.session_state:
        st.session_state[ANNOTATOR] = st.query_params.get(ANNOTATOR, "")[:60]
    who = " ".join(state.text(ANNOTATOR).split())
    state.publish(ANNOTATOR, who)
    return who


def leave() -> None:
    """From a callback: back to the choice of a session."""
    state.put(SESSION, "")


def setup(data: Shown) -> None:
    """The form of a new plan, and the sessions of these data that can go on."""
    ui.headline("Label some rows yourself, blind: no system, no judge and no verdict is shown.")
    _going_on(data.id)
    scale = _scale(data)
    left, right = st.columns(2, gap="medium")
    with left:
        asked = {Kind.PASS: "Is this response good enough?", Kind.RATING: "How good is this response?",
                 Kind.PAIRS: "Which response is better?"}[scale.kind]  # fmt: skip
        question = st.text_input("Question to answer", asked, key=f"label_question_{scale.kind}", max_chars=200)
        name = st.text_input("Your name", key="label_name", max_chars=60, persist_state="session",
                             placeholder="as it stands in the export")  # fmt: skip
    with right:
        least = min(2, data.size)
        n = st.number_input(
            f"Rows to label, of {data.size:,}", least, data.size, max(least, min(DEFAULT_ROWS, data.size // 2)),
            key=f"label_rows_{data.id}", help="The page says at every moment how exactly the labels so far speak.",
        )  # fmt: skip
        seed = st.number_input("Seed", 0, 10**6, 0, key="label_seed", persist_state="session",
                               help="Of the draw, the order and the sides of pairs.")  # fmt: skip
    runs = _runs(data)
    by = _by(runs)
    plan = _planned(data, scale, runs, by, int(n), int(seed), question)
    if plan and by:
        _show_strata(plan)
    if st.button("Start labelling", type="primary", icon=":material/edit_note:", key="label_start", disabled=not plan):
        if not name.strip():
            ui.show_error("Write your name above: each person's labels are kept apart.", "Who labels?")
        elif plan:
            _start(plan, name)


def _going_on(data_id: str) -> None:
    for about in list_plans(get_settings().labels, data_id)[:5]:
        try:
            session = open_session(about["plan_id"], get_settings().labels)
            held = session.answers()
        except EngineError as error:
            ui.show_error(error, "A labelling session cannot be opened.")
            continue
        plan = session.plan
        done = ", ".join(f"{who} {len(held.of(who))}" for who in held.annotators) or "nobody has begun"
        with st.container(
            horizontal=True, vertical_alignment="center", gap="small", key=f"label_session_{plan.plan_id}"
        ):
            ui.note(f"“{plan.question}” {plural(plan.n, 'row')}, {_how(plan)}, begun {plan.created[:10]}: {done}.")
            st.button("Go on", key=f"label_open_{plan.plan_id}", on_click=state.put, args=(SESSION, plan.plan_id))


def _how(plan: Plan) -> str:
    return f"more where {' and '.join(_REASONS[name] for name in plan.by)}" if plan.by else "at random"


_REASONS = {UNCERTAINTY: "the judge is unsure", DISAGREEMENT: "verdicts differ"}
_SCALES = {"1 to 3": (1, 3), "1 to 4": (1, 4), "1 to 5": (1, 5), "1 to 7": (1, 7), "1 to 10": (1, 10), "0 to 4": (0, 4)}
_KINDS = {Kind.PASS: "Pass or fail", Kind.RATING: "A rating"}


def _scale(data: Shown) -> Scale:
    if data.paired:
        return Scale(Kind.PAIRS)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        kind = st.segmented_control(
            "Labels are", list(_KINDS), default=Kind.PASS, key=KIND, required=True, format_func=_KINDS.__getitem__,
            persist_state="session",
        )  # fmt: skip
        if kind != Kind.RATING:
            return Scale(Kind.PASS)
        span = st.selectbox("from", list(_SCALES), 2, key="label_scale", persist_state="session", width=140)
    return Scale(Kind.RATING, *_SCALES[str(span)])


def _runs(data: Shown) -> list[str]:
    options = linked_run.verdict_runs(data.id, state.text(state.JUDGE), paired=data.paired)
    if not options:
        ui.note(
            "No run has judged these data yet, so rows are drawn at random. With a run, more rows can be drawn where "
            "the judge is unsure, and the judge's rate is corrected by your labels."
        )
        return []
    return st.multiselect(
        "Verdicts from", list(options), default=list(options)[:1], key=f"label_runs_{data.id}",
        max_selections=MOST_JUDGES, format_func=lambda run: options[run],
        help="They decide what is drawn, and are never shown while you label. With two, rows on which the judges "
        "differ can be drawn more often.",
    )  # fmt: skip


def _by(runs: list[str]) -> tuple[str, ...]:
    if not runs:
        return ()
    picked = st.pills(
        "Draw more rows where", list(_REASONS), selection_mode="multi", key="label_by", format_func=_REASONS.get,
        help="Every row keeps a known chance to be drawn, which the export states and the estimates use. Nothing "
        "chosen: all rows have the same chance.",
    )  # fmt: skip
    return tuple(name for name in _REASONS if name in (picked or []))


def _planned(
    data: Shown, scale: Scale, runs: list[str], by: tuple[str, ...], n: int, seed: int, question: str
) -> Plan | None:
    try:
        rows = _population(data.id, scale, tuple(runs))
        return make_plan(rows, data=data.id, scale=scale, n=n, by=by, seed=seed, question=question, runs=runs)
    except EngineError as error:
        ui.show_error(error, "No plan can be made of these choices.")
        return None


@st.cache_data(max_entries=8, show_spinner=False)
def _population(data_id: str, scale: Scale, runs: tuple[str, ...]) -> pd.DataFrame:
    data = datasets.pairs(data_id) if data_id in datasets.pair_sets() else datasets.dataset(data_id)
    return population(data, scale, [read(run_id).folder for run_id in runs])


def _show_strata(plan: Plan) -> None:
    table = plan.strata()
    st.dataframe(
        table, hide_index=True, width="stretch", alt="Strata of the plan with their inclusion probability",
        column_config={
            "stratum": "Stratum", "rows": "Rows", "drawn": "Drawn",
            "inclusion": st.column_config.NumberColumn("Chance to be drawn", format="%.3f"),
        },
    )  # fmt: skip


def _start(plan: Plan, name: str) -> None:
    try:
        session = save_plan(plan, get_settings().labels)
        who = session.name_of(name, session.answers())
    except EngineError as error:
        ui.show_error(error, "The session could not be started.")
        return
    state.after_rerun({SESSION: session.plan.plan_id, ANNOTATOR: who})
    st.rerun()
