"""Run the study on the chosen data, and watch it."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.pages.attack_lab.whole_set import DEFAULT_ATTACKS
from dashboard.pages.steering_and_anchors.findings import CapView
from dashboard.progress import api_cost, start_job, watched_job
from engine import catalog
from engine.core.schema import NONE
from engine.data.dataset import Dataset
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.studies.cap.figures import ROWS, row_figure
from engine.studies.cap.study import CAP

JOB = "cap_job"
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


def setup(judge: str, dataset: Dataset, job: Job | None) -> None:
    """Choices and the Run button, folded away until they are wanted."""
    with st.expander(
        "Run the study on this data", on_change="rerun", key="cap_setup", icon=":material/tune:"
    ) as opened:
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
            )  # fmt: skip
        with right:
            tutor = _tutor()
            candidates = st.slider("Candidates per training context and pool", 4, 48, 12, key="cap_candidates")
            limit = _limit(dataset)
            form = st.segmented_control(
                "Similarity in eqs. 4 and 5", list(FORMS), default="paper", format_func=FORMS.get, key="cap_form",
                required=True,
                help="The paper takes the cosine of the activation itself; centred takes away the mean of both "
                "standards first, so that a large common part does not cancel the edit.",
            )  # fmt: skip
        busy = bool(job and job.active)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            pressed = st.button(
                "Run", type="primary", icon=":material/play_arrow:", key="cap_run", disabled=busy or not attacks
            )
            calls = _calls(dataset, int(limit), list(attacks or ()), int(candidates), deflate=bool(deflate))
            ui.note(_about_the_run(dataset, calls, busy=busy, attacks=len(attacks or ())))
        ui.note("" if busy or not attacks else api_cost(judge, dataset, calls, texts=3))
    if pressed:
        params = {
            "judge": judge,
            "data": dataset.dataset_id,
            "attacks": list(attacks or ()),
            "candidates": int(candidates),
            "form": str(form),
            "limit": int(limit),
            "tutor": tutor,
            "deflate": bool(deflate),
            "learned_words": int(words),
        }
        _start(params)


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


def _limit(dataset: Dataset) -> int:
    """Number of responses judged, of the contexts that train nothing; about half of the data have such."""
    most = -(-len(dataset.responses) * (len(dataset.items) - len(dataset.items) // 2) // max(1, len(dataset.items)))
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


def _about_the_run(dataset: Dataset, calls: int, *, busy: bool, attacks: int) -> str:
    if busy:
        return "A run is going; stop it or let it finish before you start another."
    if not attacks:
        return "Choose at least one attack."
    items = plural(len(dataset.items), "context")
    return (
        f"About {plural(calls, 'judge call')}. Half of the {items} train the standards, the others are judged. Texts "
        "and verdicts are kept, so a stopped run goes on where it was. Minutes on a CPU."
    )


def _start(params: dict[str, object]) -> None:
    def keep(job: str) -> None:
        st.session_state[JOB] = job
        state.publish(JOB, job)

    start_job(CAP, params, "The study could not be started.", keep)


# The cost of a defense on clean responses: agreement with ratings, tokens, seconds; and the effect of anchors.


def cost(view: CapView) -> None:
    """Four small figures, each with its own unit."""
    if not len(view.metrics):
        ui.note("Costs are known when the attacks have been run.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        rows_figure(view, "spearman")
        rows_figure(view, "gap")
    with right:
        rows_figure(view, "tokens")
        rows_figure(view, "effect")
    rows_figure(view, "seconds")
    ui.note(
        "Seconds are wall time of what was asked anew in this run, batches shared, other work on the machine included; "
        "an arm whose answers came from the cache has none. Exchanged: mean absolute change; shown: mean change "
        "against no anchors."
    )


def rows_figure(view: CapView, name: str) -> None:
    """A figure with a row for each defense or attack; a note where the run did not measure it."""
    if len(row_figure(name, view.metrics)):
        ui.show_entry(view.source, name, key=f"cap_{name}")
    else:
        ui.note(f"{ROWS[name].title} Not measured in this run.")
