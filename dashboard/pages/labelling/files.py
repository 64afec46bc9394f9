"""What becomes of labels: agreement of two people and what they settle, export, import, use as human scores."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from dashboard import datasets, state, ui
from dashboard.pages.labelling.setup import ANNOTATOR, PROBLEM, Shown, choices, leave
from dashboard.uploads import MAX_UPLOAD_MB
from engine.core.errors import EngineError, InputError
from engine.core.files import safe_csv
from engine.data.dataset import Dataset
from engine.data.label_plan import Kind
from engine.data.labels import (
    MOST_ANNOTATORS,
    Answers,
    Session,
    answers_table,
    export_table,
    final_answers,
    import_answers,
)
from engine.data.reading import read_table
from engine.plots.text import interval_text, plural
from engine.runs.labelling import people_agree

_ROUND = "label_import_round"
CSV = "text/csv"


def actions(session: Session, who: str) -> None:
    """Beside the title: the labels as a file, labels from a file, another session."""
    if who:
        name = f"labels-{session.plan.plan_id}.csv"
        ui.download("Export", lambda: safe_csv(_own(session, who)), name, CSV, key="label_export")
        with st.popover("Import", icon=":material/upload:", key="label_import_box", on_change="rerun") as box:
            if box.open:
                _import(session, who)
    st.button("Other session", icon=":material/list:", key="label_other", on_click=leave)


def _own(session: Session, who: str) -> pd.DataFrame:
    """This person's labels while another's must stay unseen; the final ones once both have finished."""
    return export_table(session, "" if session.compared() else who)


def _import(session: Session, who: str) -> None:
    ui.note("A table with columns id and label; annotator where several people labelled, skipped_reason where some did "
            "not. All of it enters, or nothing.")  # fmt: skip
    turn = int(st.session_state.get(_ROUND, 0))
    file = st.file_uploader(
        "Labels given elsewhere",
        key=f"label_import_{turn}",
        type=["csv", "tsv", "xlsx", "parquet"],
        max_upload_size=MAX_UPLOAD_MB,
    )
    if file is None:
        return
    try:
        raw = read_table(file.name, file.getvalue())
        raw.require_certain(file.name, "Save the file again as UTF-8.")
        added = import_answers(session, raw.frame, who)
    except EngineError as error:
        ui.show_error(error, "These labels were not imported.")
        return
    state.put(_ROUND, turn + 1)
    state.say_after_rerun(f"{plural(added, 'label')} imported.")
    st.rerun()


def after(
    session: Session, who: str, held: Answers, data: Shown, undo: Callable[[Session, str, Answers], None]
) -> None:
    """What follows the last row: use, a second person, or both people's answers beside each other."""
    compared = session.compared(held)
    final = final_answers(session, held) if compared else held.of(who)
    labelled = sum(bool(one.label) for one in final.values())
    ui.finding(f"All {plural(session.plan.n, 'row')} are done: {plural(labelled, 'label')} stand.")
    if compared:
        _compared(session, who, held, data)
    elif len(held.annotators) < MOST_ANNOTATORS:
        ui.note("A second person can label the same rows, in the same order and without seeing these labels.")
    else:
        ui.note("Agreement is shown when the other person has finished, too.")
    with st.container(horizontal=True, gap="small", key="label_done"):
        if st.button(
            "Use these labels", type="primary", icon=":material/check:", key="label_use", disabled=not labelled,
            help="Saves the data with them as human scores or choices; other pages then use them.",
        ):  # fmt: skip
            _use(session, {row: one.label for row, one in final.items() if one.label}, data)
        judged = bool(labelled) and session.plan.rows["verdict"].notna().any()
        if judged and st.button(
            "Correct the judge's number", icon=":material/rule:", key="label_trust",
            help="On the page Trust, each row by its chance to be drawn.",
        ):  # fmt: skip
            state.after_rerun({state.TRUST_BOX: True, state.TRUST_SESSION: session.plan.plan_id})
            st.switch_page("pages/trust/page.py")
        if not compared:
            undo(session, who, held)
            if st.button("Someone else labels", icon=":material/person_add:", key="label_second"):
                state.after_rerun({ANNOTATOR: ""})
                st.rerun()
        else:
            ui.download("Each person's answers", lambda: safe_csv(answers_table(session)),
                        f"answers-{session.plan.plan_id}.csv", CSV, key="label_answers")  # fmt: skip


def _compared(session: Session, who: str, held: Answers, data: Shown) -> None:
    differ = session.disagreements(held)
    if agreement := people_agree(session):
        kappa = agreement.kappa
        named = {"Cohen's kappa": kappa.interval, "Krippendorff alpha": agreement.alpha}
        ui.facts(
            {"Both labelled": plural(kappa.interval.n, "row"), "Same label": f"{kappa.observed:.0%}"}
            | {
                name: interval_text(one.value, one.lower, one.upper) if one.value == one.value else "undefined"
                for name, one in named.items()
            }
        )
    if not differ:
        ui.note("Both gave the same label wherever both labelled.")
        return
    open_ones = [row for row in differ if row not in held.settled]
    ui.note(f"{plural(len(differ), 'row')} differ, {len(open_ones)} of them not settled. Own answers stay as they are.")
    people = held.annotators
    for row in open_ones[:10]:
        context, texts = data.texts(row)
        with st.container(border=True, key=f"label_settle_{row}"):
            if context:
                ui.show_verbatim(context, label="The context")
            for text in texts[::-1] if session.plan.swapped(row) else texts:
                ui.show_verbatim(text, label="The response")
            words = {label: name for label, name, _ in choices(session.plan, row)}
            ui.note("; ".join(f"{one}: {words[held.of(one)[row].label]}" for one in people))
            with st.container(horizontal=True, gap="small"):
                for label, name in words.items():
                    st.button(name, key=f"settle_{row}_{label}", on_click=_settle, args=(session, who, row, label))


def _settle(session: Session, who: str, row: str, label: str) -> None:
    try:
        session.settle(who, row, label)
    except EngineError as error:
        state.put(PROBLEM, str(error))


def _use(session: Session, labels: dict[str, str], data: Shown) -> None:
    try:
        if session.plan.scale.kind == Kind.PAIRS:
            made = datasets.add_choices(datasets.pairs(data.id), labels)
        else:
            held = datasets.dataset(data.id)
            _require_scale(session, held, labels)
            given = {row: session.plan.scale.value(label) for row, label in labels.items()}
            made = datasets.add_scores(held, given)
    except EngineError as error:
        ui.show_error(error, "The labels could not be used.")
        return
    state.choose_data(made)
    state.say_after_rerun(f"{plural(len(labels), 'label')} are in use on every page.")
    st.rerun()


def _require_scale(session: Session, held: Dataset, labels: dict[str, str]) -> None:
    """Refuse to put labels beside human scores on another scale."""
    scale = session.plan.scale
    values = [scale.value(label) for label in scale.labels]
    others = held.responses.loc[~held.responses["response_id"].isin(list(labels)), "human_score"].dropna()
    if len(others) and (others.min() < min(values) or others.max() > max(values)):
        raise InputError(
            f"Other responses have human scores from {others.min():g} to {others.max():g}, and these labels go from "
            f"{min(values):g} to {max(values):g}. Label with a rating on that scale, or upload the data without scores."
        )
