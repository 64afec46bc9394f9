"""The left rail: judge, data, what the machine is doing; the same on every page, bound to the URL."""

from __future__ import annotations

import streamlit as st
from streamlit import config

from dashboard import datasets, linked_run, state, ui
from dashboard.server.guard import guarded, is_loopback, login_configured
from engine import catalog
from engine.core.plugins import complaints
from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.jobs.manager import manager
from engine.studies.registry import all_plugins

BUSY_POLL_S = 2.0
IDLE_POLL_S = 15.0
PLANTED = "planted:"
_NO_JUDGE = {"pages/labelling/page.py", "pages/trust/page.py", "pages/judges_compared/page.py"}
"""Pages that ask no judge: labels are given blind, and the others bring their verdicts along."""
_WORDS = {
    "off": "asleep, wakes when asked",
    "starting": "waking up",
    "idle": "ready",
    "busy": "working",
}


def rail(page: str) -> None:
    """Draw the rail; afterwards `state.text(state.JUDGE)` and `state.text(state.DATA)` are valid choices.

    Args:
        page: title of the page that is open; it opens on the judge and the data that it has a recorded run of.
    """
    state.apply_pending()
    files = [file for file, title in linked_run.TITLES.items() if title == page]
    judge, data = linked_run.defaults(files[0] if files else "")
    with st.sidebar:
        if _NO_JUDGE & set(files):
            state.seed(state.JUDGE, _judge_options(), judge)
        else:
            _judge(judge)
        _data(data)


def machine() -> None:
    """Plugins left out and the state of the worker, below the choices; asked for gently while nothing is going on."""
    busy = manager().status().state in ("busy", "starting")
    with st.sidebar:
        st.divider()
        for line in complaints() if all_plugins() else ():
            ui.note(line)
        st.fragment(_machine, run_every=BUSY_POLL_S if busy else IDLE_POLL_S)()


def _judge(default: str) -> None:
    options = _judge_options()
    _renew_card(options)
    state.follow_default(state.JUDGE, default)
    state.seed(state.JUDGE, options, default)
    cards = catalog.describe_judges(options)
    chosen = ui.pick(
        "Judge",
        options,
        key=state.JUDGE,
        title=lambda spec: cards[spec].title if spec in cards else spec,
        help="Whose verdicts are put to the test, on every page. Planted judges have a known bias and need no model.",
        on_change=lambda: state.chosen(state.JUDGE),
    )
    state.publish(state.JUDGE, chosen, default)
    ui.note(cards[chosen].about)
    _mention_unknown(state.JUDGE, "judge")


def _judge_options() -> list[str]:
    """The two bundled judges of one base, the others, and a planted judge with own parameters if the URL names one.

    Other specs are not taken from a URL: a link must not make this machine load a model somebody else named. That of
    a run which ships with the project is listed.
    """
    listed = [spec for protocol in Protocol for spec in catalog.judges_for(protocol)]
    recorded = [judge for _, judge, _ in linked_run.recorded_runs() if judge]
    models = [s for s in [*recorded, *listed] if not s.startswith(PLANTED)]
    planted = [s for s in listed if s.startswith(PLANTED)]
    named = str(st.session_state.get(state.JUDGE) or st.query_params.get(state.JUDGE, ""))
    known = [] if catalog.planted_problem(named) else [named]
    first = [state.DEFAULT_JUDGE, state.CAREFUL_JUDGE]
    return list(dict.fromkeys([*first, *models, *planted, *known, *linked_run.judges()]))  # that of a run made here


def _renew_card(options: list[str]) -> None:
    """A saved card that was edited since it was chosen, or since a link was made, goes on in its present wording."""
    named = str(st.session_state.get(state.JUDGE) or st.query_params.get(state.JUDGE, ""))
    old = catalog.split_spec(named)
    if named in options or not old.name:
        return
    for spec in options:
        now = catalog.split_spec(spec)
        if (now.model, now.name) == (old.model, old.name):
            state.put(state.JUDGE, spec)
            ui.note(f"The card {old.name!r} was changed; its present wording is used.")


def _data(default: str) -> None:
    titles = datasets.titles()
    state.follow_default(state.DATA, default)
    state.seed(state.DATA, list(titles), default)
    chosen = ui.pick(
        "Data",
        list(titles),
        key=state.DATA,
        title=lambda data_id: titles.get(data_id, data_id),
        help="Responses or pairs that are judged, on every page. Bring your own on the Data page.",
        on_change=_forget_response,
    )
    state.publish(state.DATA, chosen, default)
    ui.note(datasets.count_line(chosen))
    _mention_unknown(state.DATA, "data set")
    if chosen not in datasets.DEMO_TITLES and chosen not in datasets.pair_sets():
        datasets.task_box(chosen)


def _forget_response() -> None:
    state.chosen(state.DATA)
    st.session_state.pop(state.RESPONSE, None)


def _mention_unknown(key: str, noun: str) -> None:
    asked = state.unknown(key)
    if asked.startswith("planted:"):
        ui.note(f"The link's judge cannot be used. {catalog.planted_problem(asked)}")
    elif asked:
        ui.note(f"The link asks for the {noun} {asked!r}, which is not on this machine.")


def _machine() -> None:
    status = manager().status()
    facts = {"Device": status.device or "not in use yet", "Judge": _WORDS[status.state]}
    if job := manager().get(status.running):
        facts["Run"] = f"{job.fraction:.0%}"
    if status.queued:
        facts["Waiting"] = str(status.queued)
    ui.facts(facts)


# Above a page that shows the run a link asked for: which one it is, and the way back to the newest.


def pinned_bar(page: str) -> None:
    """Nothing where the page shows its newest run.

    Args:
        page: title of the page that is open.
    """
    if reason := linked_run.missing():
        ui.show_error(reason, "The link's run cannot be shown.")
    run = linked_run.pin()
    if (
        run is None
        or page == linked_run.TITLES[linked_run.RUNS_PAGE]
        or linked_run.TITLES[linked_run.place_of(run).page] != page
    ):
        return
    state.publish(linked_run.RUN, run.run_id)
    when = str(run.manifest.get("created", ""))[:16].replace("T", " ")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pinned_run"):
        ui.note(f"Shown is the run {run.title or run.run_id}, begun {when} UTC.")
        st.button("Show the newest instead", key="unpin", on_click=linked_run.drop)
        if st.button("All runs", key="to_runs", icon=":material/list:"):
            state.put(linked_run.SELECTED, run.run_id)
            st.switch_page(linked_run.RUNS_PAGE)


# Who may see a page: what the guard in front cannot decide, since only a script run can show a login.


def require_login() -> None:
    """Stop the script here for a visitor who must log in first, or who came around the guard."""
    if login_configured() and not get_settings().token:
        if not st.user.get("is_logged_in", False):
            st.title("JudgeScope", anchor=False)
            ui.note("This dashboard is for people who are logged in.")
            st.button("Log in", type="primary", on_click=st.login, key="log_in")
            st.stop()
    elif not guarded() and not is_loopback(config.get_option("server.address") or ""):
        ui.show_error(
            "Start it with `judgescope dashboard --address …`, which asks for a token. "
            "`streamlit run dashboard/app.py` leaves the guard out and is for this machine only.",
            "This address can be reached from other machines.",
        )
        st.stop()
