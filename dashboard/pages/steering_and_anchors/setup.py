"""Run the study on the chosen data, and watch it."""

from __future__ import annotations

from datetime import datetime

import streamlit as st

from dashboard import findings, state, ui
from dashboard.datasets import demo_mend, label_mend, map_mend, task_mend
from dashboard.minutes import measure
from dashboard.pages.attack_lab.whole_set import DEFAULT_ATTACKS
from dashboard.pages.steering_and_anchors.findings import CapView
from dashboard.progress import BUSY, api_cost, start_job, watched_job
from engine import catalog
from engine.core.schema import NONE, Protocol, Task
from engine.data.dataset import Dataset
from engine.data.store import DEMO_DIALOGUE
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.studies.cap.figures import ROWS, row_figure
from engine.studies.cap.study import CAP, LEAST_CONTEXTS, CapConfig, least_candidates, steps_of

JOB, OPEN = "cap_job", "cap_open"
ATTACKS = (*DEFAULT_ATTACKS, "adaptive", "suffix")
TUTOR = "bundled:base"
DEFENSES, ANCHORED, LENGTHS = 8, 4, 4
"""Arms of the study (perplexity with two thresholds), those with anchors (each also exchanged), and further lengths of
the suffix, on two arms."""
FORMS = {"paper": "As in the paper", "centred": "Centred cosine"}


def watched(judge: str, dataset_id: str) -> Job | None:
    """The run of the study that is watched here; the session and the address keep its id."""
    job = watched_job(CAP, key=JOB, judge=judge, data=dataset_id)
    if job:
        st.session_state[JOB] = job.job_id
        state.publish(JOB, job.job_id)
    return job


def actions(judge: str, dataset: Dataset, view: CapView | None, job: Job | None) -> None:
    """Beside the title: the full run behind a quick one, with its minutes, and the panel of all settings."""
    busy = bool(job and job.active)
    quick = view is not None and not view.recorded and view.config.get("quick") and view.manifest["state"] == "done"
    if view and quick and st.button(
        f"Refine: full run{_minutes_from(view, dataset)}", type="primary", icon=":material/play_arrow:",
        key="cap_full", disabled=busy,
    ):  # fmt: skip
        _start({"judge": judge, "data": dataset.dataset_id, "limit": _most(dataset)})
    if view:
        st.toggle("Run anew", key=OPEN, help="Choose settings and run the study on the data of the left.")


def _minutes_from(view: CapView, dataset: Dataset) -> str:
    """What the full run takes by the pace of the quick one, as an end of a label; empty where it is not known."""
    begun, ended = view.manifest.get("created"), view.manifest.get("finished")
    if not begun or not ended:
        return ""
    took = (datetime.fromisoformat(str(ended)) - datetime.fromisoformat(str(begun))).total_seconds()
    about, items = view.manifest.get("data", {}), dataset.responses["item_id"].nunique()
    quick = CapConfig.model_validate(view.config)
    trained, judged = int(about.get("n_training_items", 1)), int(about.get("n_items", 1))
    full = CapConfig(judge=quick.judge, data=quick.data)
    whole = steps_of(full, items // 2, items, _most(dataset))
    share = whole / steps_of(quick, trained, trained + judged, int(about.get("n_responses", 1)))
    return f" (about {findings.duration(took * share)})"


def setup(judge: str, dataset: Dataset, job: Job | None) -> None:
    """What the study needs of the data, the quick run, and all settings behind a fold."""
    busy = bool(job and job.active)
    with st.container(border=True, key="cap_setup"):
        ready = ui.needs(_needs(judge, dataset), key="cap")
        base: dict[str, object] = {"judge": judge, "data": dataset.dataset_id}
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            pressed = st.button(
                "Quick run", type="primary", icon=":material/bolt:", key="cap_quick", disabled=busy or not ready,
                help="Up to 4 training contexts, 12 responses, two attacks, no defense and CAP, texts of 32 tokens: "
                "two minutes on two cores. Every part of the page is there; intervals are wide.",
            )  # fmt: skip
            if ready:
                measure(CAP, {"quick form": {**base, "quick": True}, "full run": {**base, "limit": _most(dataset)}})
        if pressed:
            _start({**base, "quick": True})
        if ready:
            _all_settings(judge, dataset, base, busy=busy)


def _needs(judge: str, dataset: Dataset) -> list[ui.Need]:
    """What the study needs of judge and data; ratings and second responses are welcome."""
    items = dataset.responses["item_id"].nunique()
    rated = int(dataset.responses["human_score"].notna().sum())
    named = judge.startswith(("planted:", "hf:", "path:", "api:", "decision:")) and "verifier" not in judge
    scores = named or judge in catalog.judges_for(Protocol.POINTWISE) or bool(catalog.split_spec(judge).name)
    pairs = bool((dataset.responses["item_id"].value_counts() > 1).any())
    naive = ui.Mend("Use the naive judge", lambda: state.use_judge(state.DEFAULT_JUDGE))
    checked = dataset.task == Task.VERIFICATION
    answers = [
        ui.Need(
            "Responses that get a score", False, "now they are checked against a reference",
            mends=(task_mend(dataset, Task.QUESTION), demo_mend(DEMO_DIALOGUE)),
        )
    ] if checked else []  # fmt: skip
    return [
        *answers,
        ui.Need("A judge that gives scores", scores, mends=(naive,)),
        ui.Need(
            f"At least {LEAST_CONTEXTS} contexts", items >= LEAST_CONTEXTS, f"{items} there",
            mends=(map_mend("Context"), demo_mend(DEMO_DIALOGUE)),
        ),
        ui.Need(
            "Scores by people", rated > 0, f"{rated} of {len(dataset.responses)}",
            without="no anchors rated by people, no agreement with people",
            mends=(label_mend(dataset.dataset_id), map_mend("Human score")),
        ),
        ui.Need(
            "Two responses to a context", pairs,
            without="comparing is not set beside scoring", mends=(map_mend("Item id"),),
        ),
    ]  # fmt: skip


def _all_settings(judge: str, dataset: Dataset, base: dict[str, object], *, busy: bool) -> None:
    """Every choice of a full run, folded away until it is wanted."""
    with st.expander("Full run, all settings", on_change="rerun", key="cap_settings") as opened:
        if not opened.open:
            return
        left, right = st.columns(2, gap="medium")
        with left:
            names = [a for a in catalog.ATTACKS if a not in (NONE, "own")]
            attacks = st.pills(
                "Attacks", names, selection_mode="multi", default=[a for a in ATTACKS if a in names],
                format_func=lambda a: catalog.ATTACKS[a].title.partition(":")[0], key="cap_attacks", wrap=True,
            )  # fmt: skip
            deflate = st.toggle(
                "Also the deflating form of each", key="cap_deflate",
                help="The same attack with the opposite aim: it lowers the score of the response it stands in, a "
                "rival's. Attacks without a direction have none.",
            )  # fmt: skip
            words = st.slider(
                "Words of a suffix learned on this judge", 0, 5, 0, key="cap_learned",
                help="AdvSuffix: searched on the training contexts by gradient; 0 learns none. Three words take "
                "minutes on a CPU. Only a judge with a model of its own can be searched.",
            ) if white_box(judge) else 0  # fmt: skip
        with right:
            tutor = _tutor()
            least = least_candidates(dataset.responses["item_id"].nunique() // 2)
            candidates = st.slider(
                "Candidates per training context and pool", least, max(48, 2 * least), max(12, least),
                key=f"cap_candidates_{least}",
                help=f"With these data at least {least}: fewer could not hold both standards.",
            )  # fmt: skip
            limit = _limit(dataset)
            form = st.segmented_control(
                "Similarity in the edit", list(FORMS), default="paper", format_func=FORMS.get, key="cap_form",
                required=True,
                help="Equations 4 and 5. The paper takes the cosine of the activation itself; centred takes away the "
                "mean of both standards first, so that a large common part does not cancel the edit.",
            )  # fmt: skip
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            pressed = st.button("Run", icon=":material/play_arrow:", key="cap_run", disabled=busy or not attacks)
            calls = _calls(dataset, int(limit), list(attacks or ()), int(candidates), deflate=bool(deflate))
            ui.note(_about_the_run(calls, busy=busy, attacks=len(attacks or ())))
        ui.note("" if busy or not attacks else api_cost(judge, dataset, calls, texts=3))
    if pressed:
        chosen = {
            "attacks": list(attacks or ()),
            "candidates": int(candidates),
            "form": str(form),
            "limit": int(limit),
            "tutor": tutor,
            "deflate": bool(deflate),
            "learned_words": int(words),
        }
        _start(base | chosen)


def white_box(judge: str) -> bool:
    """A judge whose gradient can be taken: a model that runs here."""
    return catalog.split_spec(judge).model.startswith(("bundled:", "hf:", "path:"))


def _tutor() -> str:
    """The spec of the model that writes the candidates and the anchors."""
    if "cap_tutor" not in st.session_state:
        st.session_state["cap_tutor"] = TUTOR
    options = list(dict.fromkeys([TUTOR, str(st.session_state["cap_tutor"] or TUTOR)]))
    return str(
        st.selectbox(
            "Tutor", options, key="cap_tutor", accept_new_options=True, persist_state="session",
            format_func=lambda spec: "SmolLM2-135M, as it came" if spec == TUTOR else spec,
            help="Or type a spec: hf:ORG/NAME or path:FOLDER, a chat model whose layers can be steered. Runs of two "
            "tutors stand side by side under “Two tutors”.",
        )
        or TUTOR
    )  # fmt: skip


def _most(dataset: Dataset) -> int:
    """Responses of the contexts that train nothing, about."""
    n = len(dataset.items)
    return max(1, -(-len(dataset.responses) * (n - n // 2) // max(1, n)))


def _limit(dataset: Dataset) -> int:
    """Number of responses judged, of the contexts that train nothing; about half of the data have such."""
    most = _most(dataset)
    if most < 2:
        return 1
    return int(st.slider("Responses judged, at most", 1, most, most, key=f"cap_limit_{dataset.dataset_id}"))


def _calls(dataset: Dataset, limit: int, attacks: list[str], candidates: int, *, deflate: bool) -> int:
    """Verdicts of a run, about: every arm, the controls, the comparative form, and the texts that are scored."""
    arms = 1 + len(attacks) * (2 if deflate else 1)
    lengths = LENGTHS if "suffix" in attacks else 0
    judged = limit * (DEFENSES * arms + ANCHORED + 2 * lengths + 2 * arms)
    training = len(dataset.items) // 2
    return judged + 2 * candidates * training + 16 * training + 6 * len(dataset.items)


def _about_the_run(calls: int, *, busy: bool, attacks: int) -> str:
    if busy:
        return BUSY
    if not attacks:
        return "Choose at least one attack."
    return f"About {plural(calls, 'judge call')}. Half of the contexts train, the others are judged. All is kept."


def _start(params: dict[str, object]) -> None:
    def keep(job: str) -> None:
        st.session_state[JOB] = job
        state.publish(JOB, job)

    start_job(CAP, params, "The study could not be started.", keep)


# The cost of a defense on clean responses: agreement with ratings, tokens, seconds; and the effect of anchors.


def cost(view: CapView) -> None:
    """Agreement and tokens; seconds, and whether anchors act at all, behind a fold; each has its own unit."""
    if not len(view.metrics):
        ui.note("Costs are known when the attacks have been run.")
        return
    _side_by_side(view, "spearman", "tokens")
    with st.expander("Seconds, and what the anchors do", on_change="rerun", key="cap_cost_more") as opened:
        if opened.open:
            _side_by_side(view, "gap", "effect")
            rows_figure(view, "seconds")
            ui.note("Seconds: wall time of what was asked anew. Tokens: prompt and anchors together.")


def _side_by_side(view: CapView, first: str, second: str) -> None:
    for name, column in zip((first, second), st.columns(2, gap="large"), strict=True):
        with column:
            rows_figure(view, name)


def rows_figure(view: CapView, name: str) -> None:
    """A figure with a row for each defense or attack; a note where the run did not measure it."""
    if len(row_figure(name, view.metrics)):
        ui.show_entry(view.source, name, key=f"cap_{name}")
    else:
        ui.note(f"{ROWS[name].title} Not measured in this run.")
