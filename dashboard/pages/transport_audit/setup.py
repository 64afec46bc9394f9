"""The pairs and the judge, chosen or uploaded, and a new audit as a job."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import datasets, state, ui
from dashboard.minutes import how_long
from dashboard.progress import cost_sentence, mean_bytes, progress, start_job, watched_job
from engine import catalog
from engine.core.errors import EngineError
from engine.core.schema import NONE, Protocol
from engine.core.settings import get_settings
from engine.data.comparisons import (
    ALIASES,
    DEMO_PAIRS,
    ONE_TYPE,
    Comparisons,
    pairs_of,
    read_comparisons,
    save_comparisons,
)
from engine.data.embeddings import KINDS, RULES, SPEC, list_embeddings, read_embeddings, save_embeddings
from engine.plots.text import plural
from engine.studies.transport_audit.figures import ATTACKS as ARMS
from engine.studies.transport_audit.study import IN_DATA, QUICK, QUICK_PAIRS, STUDY

# Encoders of an audit, and embeddings of the user's own.


def titles(pairs: Comparisons) -> dict[str, str]:
    """Spec and title of every encoder on offer: the user's own embeddings of these pairs, then the listed ones."""
    given = {spec: f"Your embeddings: {name}" for spec, name in list_embeddings(_root(), pairs.set_id).items()}
    return given | {card.spec: f"{card.title} ({card.about})" for card in catalog.ENCODERS}


def short_title(spec: str) -> str:
    """Name of an encoder in a table."""
    return next((card.title for card in catalog.ENCODERS if card.spec == spec), spec)


def choose_encoders(pairs: Comparisons, key: str, default: str) -> list[str]:
    """The encoders chosen, the first being the audit's; any other can be named by its spec."""
    options = titles(pairs)
    if key not in st.session_state:
        st.session_state[key] = [default]
    return list(
        st.multiselect(
            "Encoders, the first is the audit's",
            list(dict.fromkeys([*options, *st.session_state[key]])),
            key=key,
            format_func=lambda spec: options.get(spec, spec),
            accept_new_options=True,
            persist_state="session",
            help="Or type a spec: hf:ORG/NAME for any model on the hub, path:FOLDER for one on this machine.",
        )
    )


def upload_embeddings(pairs: Comparisons, key: str) -> None:
    """A file of embeddings, matched to these pairs by the visible rule or refused by name; `key` is the chooser's."""
    held = st.file_uploader(
        "A file of embeddings", type=[kind.removeprefix(".") for kind in KINDS], key=f"embeddings_file_{pairs.set_id}"
    )
    for kind, rule in RULES.items():
        ui.note(f"{kind}: {rule}.")
    if held is None:
        return
    try:
        read = read_embeddings(held.name, held.getvalue(), pairs)
    except EngineError as error:
        ui.show_error(error, "These embeddings cannot be used as they are.")
        return
    ui.note(read.counts())
    if st.button("Use these embeddings", type="primary", key="use_embeddings"):
        spec = save_embeddings(read, _root())
        state.after_rerun({key: [spec]})
        st.rerun()


def _root() -> Path:
    return get_settings().embeddings


JUDGE = "audit_judge"
PAIR_FILES = ["csv", "tsv", "jsonl", "json", "xlsx", "parquet"]
ATTACKS = {name: title for name, title in ARMS.items() if name != NONE}


def choose() -> tuple[Comparisons, str] | None:
    """The pairs of the rail and the judge: that of the rail, or the verdicts that came with the pairs.

    Where responses are chosen the demo pairs are shown under a banner; None where the pairs cannot be opened.
    """
    pairs = _pairs()
    if pairs is None:
        return None
    here = state.text(state.JUDGE)
    if here.startswith(PUBLISHED) and pairs.set_id not in datasets.DEMO_TITLES and not pairs.has_verdicts:
        naive = ui.Mend("Use the naive judge", lambda: state.use_judge(state.DEFAULT_JUDGE))
        careful = ui.Mend("Use the careful judge", lambda: state.use_judge(state.CAREFUL_JUDGE))
        ui.banner("The judge on the left has verdicts on published pairs alone.", (naive, careful), key="audit_judge")
    options = list(dict.fromkeys([IN_DATA, here] if pairs.has_verdicts else [here]))
    if len(options) == 1:
        return pairs, options[0]
    state.seed(JUDGE, options, IN_DATA)
    judge = str(
        st.segmented_control(
            "Verdicts", options, key=JUDGE, required=True, persist_state="session",
            format_func=lambda j: "those in the file" if j == IN_DATA else catalog.describe_judge(j).title,
        )
    )  # fmt: skip
    state.publish(JUDGE, judge, IN_DATA)
    return pairs, judge


PUBLISHED = "recorded:demo-"
"""Beginning of the spec of a strong judge whose verdicts on published pairs ship with the project."""


def _pairs() -> Comparisons | None:
    chosen = state.text(state.DATA)
    if chosen in datasets.pair_sets() or chosen in datasets.DEMO_TITLES:
        return datasets.chosen_pairs()
    why = "this page compares two responses to one question."
    try:
        held = datasets.dataset(chosen)
        if same := [set_id for set_id, name in datasets.pair_sets().items() if name == held.name]:
            mend = ui.Mend("Use the pairs of this file", lambda: _take(datasets.pairs(same[0]), saved=True))
            datasets.demo_banner(DEMO_PAIRS, why, (mend,))
            return datasets.pairs(DEMO_PAIRS)
        made = pairs_of(held)
    except EngineError as error:
        datasets.demo_banner(DEMO_PAIRS, f"{why} {error}")
    else:
        people = int(made.comparisons["human"].notna().sum())
        scored = f", {people} with people's scores" if people else ", none with people's scores"
        mend = ui.Mend(f"Use my {plural(len(made.comparisons), 'pair')}{scored}", lambda: _take(made))
        datasets.demo_banner(DEMO_PAIRS, why, (mend,))
    return datasets.pairs(DEMO_PAIRS)


def _take(pairs: Comparisons, *, saved: bool = False) -> None:
    """Keep pairs, where that was not done before, and choose them on every page."""
    if not saved:
        save_comparisons(pairs, get_settings().comparisons)
    judge = state.text(state.JUDGE)
    asked = {state.JUDGE: state.DEFAULT_JUDGE} if judge.startswith(PUBLISHED) else {}
    state.after_rerun({state.DATA: pairs.set_id, **asked, **({JUDGE: IN_DATA} if pairs.has_verdicts else {})})
    st.rerun()


def compares(judge: str) -> bool:
    """False for a judge that is known to score single responses alone."""
    return judge == IN_DATA or catalog.can_answer(judge, Protocol.PAIRWISE)


def needed(pairs: Comparisons, judge: str) -> None:
    """What an audit needs of the pairs and the judge, before it runs."""
    human = pairs.comparisons["human"]
    people = int(human.isin(["a", "b"]).sum())
    named = int((pairs.items["group"] != ONE_TYPE).sum())
    ui.needs(
        [
            ui.Need(
                "A judge that compares two responses", compares(judge),
                mends=(ui.Mend("Use the naive judge", lambda: state.use_judge(state.DEFAULT_JUDGE)),
                       ui.Mend("Use the careful judge", lambda: state.use_judge(state.CAREFUL_JUDGE))),
            ),
            ui.Need("Two responses to each question", True, plural(len(pairs.comparisons), "pair")),
            ui.Need(
                "A person's choice on some pairs", people > 1, plural(people, "pair"),
                "verdicts, orders that disagree, attacks and the map; no agreement, no flips",
                (datasets.label_mend(pairs.set_id), datasets.demo_mend(DEMO_PAIRS)),
            ),
            ui.Need("Question types", named > 0, plural(pairs.items["group"].nunique(), "type"), "one type for all"),
        ],
        key="audit",
    )  # fmt: skip


def upload() -> None:
    """A file of pairs of the user's own, read by the visible rule or refused by name."""
    held = st.file_uploader(
        "A file of pairs", type=PAIR_FILES, key="pairs_file",
        help="One row a pair: prompt, response_a, response_b; human (a, b, tie or blank); type; verdict of a judge.",
    )  # fmt: skip
    with st.expander("Details: which columns are understood"):
        st.table({field: ", ".join(names) for field, names in ALIASES.items()}, border="horizontal")
    if held is None:
        return
    try:
        pairs = read_comparisons(held.name, held.getvalue())
    except EngineError as error:
        ui.show_error(error, "The pairs cannot be read as they are.")
        return
    left_out = "".join(f" Left out: {n} ({reason})." for reason, n in pairs.left_out.items())
    labels = ", ".join(f"{label} is {side}" for label, side in pairs.spellings.items())
    ui.note(f"{pairs.counts()}.{left_out} Labels: {labels or 'none'}.")
    if st.button("Use these pairs", type="primary", key="use_pairs"):
        _take(pairs)


def actions(pairs: Comparisons, judge: str, *, quick: bool) -> None:
    """At the top right: the quick audit or its refinement at once, a full one by its settings, pairs of one's own.

    Args:
        pairs: to be audited.
        judge: whose verdicts they are.
        quick: a quick audit is shown, so that one click makes it a full one.
    """
    job = watched_job(STUDY.names[0], judge=judge, data=pairs.set_id)
    busy = bool(job and job.active) or not compares(judge)
    usual = "bundled:judge" if judge.startswith("bundled:") else "words"  # no model that is not there anyway
    params: dict[str, object] = {"judge": judge, "data": pairs.set_id, "encoders": [_encoder(pairs, usual)]}
    name, about = ("Refine", "The full audit of all pairs.") if quick else ("Quick audit", QUICK_HELP)
    if st.button(name, type="primary", icon=":material/play_arrow:", key="quick_audit", disabled=busy, help=about):
        _start(params if quick else {**params, "quick": True})
    with st.popover("Full audit", icon=":material/tune:", width="content", key="audit_full", on_change="rerun") as full:
        if full.open:
            run_panel(pairs, judge, busy=busy)
    with st.popover("Use my data", icon=":material/upload:", width="content", key="audit_upload"):
        upload()


def _encoder(pairs: Comparisons, usual: str) -> str:
    """The encoder offered first: of pairs that ship without texts the vectors that ship with them."""
    return usual if pairs.has_texts else f"{SPEC}{pairs.set_id}"


QUICK_HELP = (
    f"At most {QUICK_PAIRS} pairs, one encoder, no UMAP, {QUICK['splits']} splits in place of 10. The full audit takes "
    "its answers and adds the rest."
)


def _start(params: dict[str, object]) -> None:
    start_job(STUDY.names[0], params, "The audit could not be started.", state.watch_job)


def watch(pairs: Comparisons, judge: str) -> None:
    """The job while it goes."""
    if job := watched_job(STUDY.names[0], judge=judge, data=pairs.set_id):
        progress(job)


def run_panel(pairs: Comparisons, judge: str, *, busy: bool) -> None:
    """The settings of a full audit, what it takes, and its button."""
    left, right = st.columns(2, gap="medium")
    with left:
        attacks = [] if judge == IN_DATA else list(
            st.pills("Attacks on the losing response", list(ATTACKS), selection_mode="multi", key="audit_attacks",
                     format_func=ATTACKS.__getitem__, persist_state="session", wrap=True)
        )  # fmt: skip
    with right:
        key = f"audit_encoders_{judge}_{pairs.set_id}"
        encoders = choose_encoders(pairs, key, _encoder(pairs, "words" if judge == IN_DATA else "bundled:judge"))
    with st.expander("Bring embeddings of your own"):
        upload_embeddings(pairs, key)
    with st.expander("Details: denoising, splits, transport per type"):
        details = _details()
    params: dict[str, object] = {
        "judge": judge, "data": pairs.set_id, "attacks": attacks, "encoders": encoders, **details
    }  # fmt: skip
    calls = 0 if judge == IN_DATA else 2 * len(pairs.comparisons) * (1 + len(attacks))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        pressed = st.button("Run the audit", type="primary", icon=":material/play_arrow:", key="run_audit",
                            disabled=busy or not encoders)  # fmt: skip
        sorting = f" {plural(len(pairs.items), 'question')} to sort into types." if details["classify"] else ""
        missing = "" if encoders else "Choose at least one encoder. "
        ui.note(f"{missing}{plural(calls, 'judge call')} at most.{sorting}")
        if calls:
            how_long(STUDY.kind, params, "; encoding comes on top")
    texts = mean_bytes(pairs.items["context"]) + 2 * mean_bytes(pairs.responses["text"])
    ui.note(cost_sentence(judge, calls, texts) if calls else "")
    if pressed:
        _start(params)


def _details() -> dict[str, object]:
    one, two = st.columns(2, gap="medium")
    with one:
        alpha = st.slider("Kept by each denoising stage (α₁ = α₂)", 0.1, 1.0, 0.7, 0.05, key="audit_alpha")
        pool = st.number_input("Pool types with fewer positives than", 0, 100, 0, key="audit_pool")
    with two:
        ratio = st.slider("Share of labelled pairs used as positives", 0.1, 0.9, 0.5, 0.05, key="audit_ratio")
        within = st.toggle("A transport and a mass of its own for each type", key="audit_within")
    listed = {spec: card.title for spec, card in catalog.judges_for(Protocol.PAIRWISE).items() if _answers(spec)}
    classify = st.selectbox(
        "Sort the questions into types A to F by", ["", *listed], key="audit_classify", accept_new_options=True,
        format_func=lambda spec: listed.get(spec, spec) or "As the file says", persist_state="session",
        help="A capable model, here or behind an API, reads each question; or type a spec: api:MODEL, hf:ORG/NAME.",
    )  # fmt: skip
    return {
        "alpha1": alpha, "alpha2": alpha, "pool_below": int(pool), "p_ratio": ratio, "within_type": within,
        "classify": classify or "",
    }  # fmt: skip


def _answers(spec: str) -> bool:
    """True for a judge that is a model and answers any prompt."""
    return spec.partition(":")[0] in {"bundled", "hf", "path", "api"}
