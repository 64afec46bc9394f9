"""Choices for a new run of the page Protocols and leaderboard, its needs and its cost."""

from __future__ import annotations

import streamlit as st

from dashboard import datasets, state, ui
from dashboard.minutes import how_long
from dashboard.pages.protocols.data import ProtocolRun
from dashboard.progress import BUSY, api_cost, start_job
from engine import catalog
from engine.core.schema import Protocol, Task
from engine.data.dataset import Dataset
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.studies.protocols.figures import TITLES
from engine.studies.protocols.study import quick_items

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
    "instruction following": "Instruction following, scale of 7 (the paper's prompts)",
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


TASK = "protocols_task"
TASKS = {Task.INSTRUCTION.value: "Following an instruction", Task.QUESTION.value: "Answer to a question"}


def pick_task(dataset: Dataset) -> str:
    """The task the responses are judged as; empty, and nothing drawn, where the data's own has a pairwise prompt."""
    if str(dataset.task) in TASKS:
        return ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.note(f"Two responses are compared as instructions or as questions; these data are: {dataset.task}. Taken as")
        chosen = st.segmented_control(
            "Taken as", list(TASKS), default=next(iter(TASKS)), key=TASK, required=True, format_func=TASKS.__getitem__,
            label_visibility="collapsed", persist_state="session",
        )  # fmt: skip
    return str(chosen)


def mends() -> tuple[ui.Mend, ...]:
    """The way to a column that names the systems, for data of the user's own."""
    return (datasets.map_mend("System"),)


def needed(dataset: Dataset) -> None:
    """What a run needs of the data, before it starts."""
    responses = dataset.responses
    systems, scored = responses["system"].nunique(), int(responses["human_score"].notna().sum())
    ruled = int(dataset.items["rules"].notna().sum())
    ui.needs(
        [
            ui.Need("Responses of two systems to each question", systems > 1, plural(int(systems), "system"),
                    mends=mends()),
            ui.Need("People's scores", scored > 0, plural(scored, "response"),
                    "no agreement with people; the order of the verdicts stands",
                    (datasets.label_mend(dataset.dataset_id),)),
            ui.Need("Format rules of the questions", ruled > 0, plural(ruled, "item"), "no tab Severity"),
        ],
        key="protocols",
    )  # fmt: skip


def actions(judge: str, dataset: Dataset, task: str, job: Job | None, *, quick: bool) -> None:
    """At the top right: the quick run or its refinement at once, a full one by its settings, data of one's own.

    Args:
        judge: its spec.
        dataset: whose responses are judged.
        task: as the responses are judged; empty takes the data's own.
        job: the newest one.
        quick: a quick run is shown, so that one click makes it a full one.
    """
    busy = bool(job and job.active)
    items = f"{quick_items(dataset)} of {plural(len(dataset.items), 'item')}"
    about = "All items, three distractors and the placebo." if quick else f"{items}, assertiveness alone, no placebo."
    name = "Refine" if quick else "Quick run"
    if st.button(name, type="primary", icon=":material/play_arrow:", key="protocols_quick", disabled=busy, help=about):
        params = {"judge": judge, "data": dataset.dataset_id, "task": task}
        start_job(ProtocolRun.kind, params if quick else {**params, "quick": True}, PROBLEM)
    full = st.popover("Full run", icon=":material/tune:", width="content", key="protocols_setup", on_change="rerun")
    with full:
        if full.open:
            setup(judge, dataset, task, busy=busy)
    st.button("Use my data", icon=":material/upload:", key="protocols_upload", on_click=state.put,
              args=(_TO_DATA, True))  # fmt: skip
    if st.session_state.pop(_TO_DATA, False):
        datasets.open_data_page()


PROBLEM = "The run could not be started."
_TO_DATA = "protocols_to_data"


def setup(judge: str, dataset: Dataset, task: str, *, busy: bool) -> None:
    """The choices for a full run, what it takes, and its button."""
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
    criterion = _choice("The judge is told to judge", CRITERION, CRITERIA)
    limit = st.number_input(
        "Items at most", 1, max(1, len(dataset.items)), len(dataset.items), key=LIMIT, persist_state="session"
    )
    lowest = st.slider("Systems rewritten on the leaderboard", 1, 5, 3, key=LOWEST, persist_state="session")
    rankings = st.toggle("Ask for rankings of three too (choice sets)", key=RANKINGS, persist_state="session")
    arms = [s if w == 1 else f"{s}:{w:g}" for s in styles or [] for w in sorted(strengths or [])]
    chosen = {"rewriter": rewriter, "criterion": criterion, "lowest": lowest, "rankings": rankings, "task": task}
    params = _params(judge, dataset, arms, int(limit), chosen) if arms else {}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        go = st.button(
            "Run", type="primary", icon=":material/play_arrow:", key="protocols_run", disabled=busy or not arms
        )
        calls = _calls(dataset, len(arms) + 1, int(limit))
        ui.note(_cost(calls, len(arms), busy=busy))
        if arms:
            how_long(ProtocolRun.kind, params)
    ui.note("" if busy or not arms else api_cost(judge, dataset, calls, texts=2))
    if go:
        start_job(ProtocolRun.kind, params, PROBLEM)


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


def _params(judge: str, dataset: Dataset, arms: list[str], limit: int, chosen: dict[str, object]) -> dict[str, object]:
    first = arms[0].partition(":")[0]
    boards = [arm for arm in arms if arm.partition(":")[0] == first]
    given = {"judge": judge, "data": dataset.dataset_id, "distractors": arms, "boards": boards, "limit": limit}
    return given | chosen
