"""Choices for a new run of the page Protocols and leaderboard, and the run while it goes."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.pages.protocols.data import ProtocolRun
from dashboard.progress import BUSY, api_cost, progress, start_job
from engine import catalog
from engine.core.schema import Protocol
from engine.data.dataset import Dataset
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.studies.protocols.figures import TITLES

STYLES, STRENGTHS, CRITERION, LOWEST, RANKINGS = (
    "protocols_styles",
    "protocols_strengths",
    "protocols_criterion",
    "protocols_lowest",
    "protocols_rankings",
)
REWRITER, LIMIT = "protocols_rewriter", "protocols_limit"
CRITERIA = {
    "overall": "Overall quality, the card's own scale",
    "overall, 1-7": "Overall quality, scale of 7",
    "instruction following": "Instruction following, scale of 7 (paper 004's prompts)",
}
REWRITERS = {"rules": "Rules (no model)", "bundled:base": "SmolLM2-135M, as it came"}
API = "api:"


def pick_rewriter(key: str) -> str:
    """Choice of the rewriter: rules, the bundled base model, a model behind the API server, or any spec typed in."""
    known = {spec: catalog.describe_judge(spec).title for spec in catalog.judges_for(Protocol.PAIRWISE)}
    titles = REWRITERS | {spec: title for spec, title in known.items() if spec.startswith(API)}
    typed = [str(st.session_state[key])] if st.session_state.get(key) else []
    state.seed(key, [*titles, *typed], next(iter(titles)))
    chosen = st.selectbox(
        "Rewritten by",
        list(dict.fromkeys([*titles, *typed])),
        key=key,
        format_func=lambda spec: titles.get(spec, spec),
        accept_new_options=True,
        persist_state="session",
        help="Or type a spec: hf:ORG/NAME, path:FOLDER or api:MODEL. The content checks are the same for all.",
    )
    return str(chosen or next(iter(titles)))


def setup(judge: str, dataset: Dataset, job: Job | None) -> None:
    """The choices for a run, what it costs and its button, folded; the progress of a run below."""
    busy = bool(job and job.active)
    with st.expander("Run this judge here", expanded=False, key="protocols_setup", icon=":material/tune:"):
        left, right = st.columns(2, gap="medium")
        with left:
            styles = st.pills(
                "Distractors",
                catalog.DISTRACTORS,
                selection_mode="multi",
                default=catalog.DISTRACTORS,
                format_func=lambda s: TITLES[s],
                key=STYLES,
                help="Each rewrites the loser of a pair. The neutral paraphrase is always judged beside them.",
                persist_state="session",
                wrap=True,
            )
            strengths = st.pills(
                "Strengths",
                (0.25, 0.5, 0.75, 1.0),
                selection_mode="multi",
                default=(1.0,),
                key=STRENGTHS,
                help="Share of places that are rewritten, for the slider below.",
                persist_state="session",
            )
            rewriter = pick_rewriter(REWRITER)
        with right:
            criterion = _choice("The judge is told to judge", CRITERION, CRITERIA)
            limit = st.number_input(
                "Items at most", 1, max(1, len(dataset.items)), len(dataset.items), key=LIMIT, persist_state="session"
            )
            lowest = st.slider("Systems rewritten on the leaderboard", 1, 5, 3, key=LOWEST, persist_state="session")
            rankings = st.toggle("Ask for rankings of three too (choice sets)", key=RANKINGS, persist_state="session")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            arms = [s if w == 1 else f"{s}:{w:g}" for s in styles or [] for w in sorted(strengths or [])]
            go = st.button(
                "Run", type="primary", icon=":material/play_arrow:", key="protocols_run", disabled=busy or not arms
            )
            calls = _calls(dataset, len(arms) + 1, int(limit))
            ui.note(_cost(calls, len(arms), busy=busy))
        ui.note("" if busy or not arms else api_cost(judge, dataset, calls, texts=2))
    if go:
        chosen = {"rewriter": rewriter, "criterion": criterion, "lowest": lowest, "rankings": rankings}
        _start(judge, dataset, arms, int(limit), chosen)
    if job:
        progress(job)


def _choice(name: str, key: str, options: dict[str, str]) -> str:
    return ui.pick(name, list(options), key=key, default=next(iter(options)), title=lambda o: options[o])


def _calls(dataset: Dataset, arms: int, limit: int) -> int:
    """Verdicts of a run: responses alone, pairs in both orders, and each rewriting against its original."""
    items = dataset.items["item_id"].iloc[:limit]
    sizes = dataset.responses[dataset.responses["item_id"].isin(items)].groupby("item_id").size()
    pairs, responses = int((sizes * (sizes - 1) / 2).sum()), int(sizes.sum())
    return responses * (1 + arms) + 2 * pairs * (1 + arms) + 2 * responses * (1 + arms)


def _cost(calls: int, arms: int, *, busy: bool) -> str:
    if busy:
        return BUSY
    return f"About {plural(calls, 'judge call')}." if arms else "Choose at least one distractor and one strength."


def _start(judge: str, dataset: Dataset, arms: list[str], limit: int, chosen: dict[str, object]) -> None:
    first = arms[0].partition(":")[0]
    boards = [arm for arm in arms if arm.partition(":")[0] == first]
    params = {
        "judge": judge,
        "data": dataset.dataset_id,
        "distractors": arms,
        "boards": boards,
        "limit": limit,
        **chosen,
    }
    start_job(ProtocolRun.kind, params, "The run could not be started.")
