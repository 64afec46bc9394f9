"""A judge behind an API, on the Start page: which server, whether there is a key, which model, does it answer?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import state, ui
from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.core.settings import PREFIX, ApiSettings, api_settings, get_settings, key_state, secrets_file
from engine.jobs.manager import manager
from engine.plots.text import plural, three_digits

# Result of a test of an API judge: latency, reading of its answers, the answer, and its cost.

_READ = {
    "probabilities": "token probabilities are offered",
    "choice": "no token probabilities; the text is held to the labels",
    "text": "no token probabilities, so the text is read",
    "auto": "not found out: the server gave no usable answer",
}
_NOTHING = ("none seen", "not known", "unknown")
MOST_LISTED = 12


def show_result(result: Mapping[str, Any]) -> None:
    """The test's finding in one sentence, then the details."""
    if "error" in result:
        ui.show_error(result["error"], "The server cannot be used like this.")
        return
    with st.container(border=True, key="api_result"):
        ui.finding(_headline(result))
        ui.facts(
            {
                "Latency": f"{three_digits(result['seconds'])} s",
                "Answers": _READ[result["answers"]],
                "Answer": _answer(result),
                "Tokens": f"{result['prompt_tokens']:,} in, {result['answer_tokens']:,} out",
                "Cost": _cost(result),
            }
            | {name: words for name, words in result["server"].items() if words not in _NOTHING}
        )
        for line in _remarks(result):
            ui.warn(line)
        others = [name for name in result["models"] if name != result["model"]]
        if others:
            more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
            ui.note(f"The server also offers: {', '.join(others[:MOST_LISTED])}{more}.")


def _headline(result: Mapping[str, Any]) -> str:
    if result["unread_reason"]:
        return f"The server answered, but no verdict could be read: {result['unread_reason']}."
    coverage = result["coverage"]
    held = f", on {100 * coverage:.0f} % of the probability" if coverage is not None else ""
    return f"It works: a correct reply about bees scores {three_digits(result['score'])} of 5{held}."


def _answer(result: Mapping[str, Any]) -> str:
    shares = result["probabilities"]
    if shares and not result["unread_reason"]:
        parts = [f"p({label}) {three_digits(p)}" for label, p in zip(result["labels"], shares, strict=True)]
        return ", ".join(parts)
    return f"“{result['text']}”" if result["text"] else "none"


def _cost(result: Mapping[str, Any]) -> str:
    calls = plural(result["calls"], "call")
    if result["money"] is None:
        return f"{calls}; no prices are set"
    return f"{calls}, {three_digits(result['money'])} {result['currency']}"


def _remarks(result: Mapping[str, Any]) -> list[str]:
    """Cautions about numbers from this server."""
    found = []
    served, model = str(result["served"]), str(result["model"])
    if served and model.casefold() not in served.casefold():
        found.append(
            f"The server says that the model {served} answered, not {model}. Some servers take any name and answer "
            "with the model they have loaded."
        )
    if result["answers"] == "probabilities" and result["unread_reason"]:
        found.append(
            "A model that begins its answer with other words than the grade is better read as text; a judge card can "
            "also ask for the grade alone."
        )
    if result["answers"] == "text" and not result["unread_reason"]:
        found.append(
            "From text a score has no values between the grades. Several answers to each prompt give a mean, at as "
            "many calls."
        )
    return found


MODEL, ANSWERS, SAMPLES = "api_model", "api_answers", "api_samples"
_RESULT, _FORGOTTEN = "api_test_result", "api_forgotten"
DECISION = "decision"
_ANSWERS = {
    "auto": "Probabilities, else text",
    "probabilities": "Probabilities only",
    "choice": "Text held to the labels",
    "text": "Free text",
    DECISION: "Decision API",
}
LONGEST_TEST_S = 90.0
_EXAMPLE = """[api]
base_url = "http://127.0.0.1:8000/v1"
key = "..."              # leave out where the server wants none
max_calls = 2000         # hard cap on the calls of one run
price_prompt = 0.15      # per million tokens, for the estimate
price_completion = 0.60
max_cost = 2.00          # hard cap on the cost of one run
"""


def api_judges() -> None:
    """Open where an API judge is chosen already, else folded away."""
    chosen = state.text(state.JUDGE)
    is_api = catalog.is_served(chosen)
    title = "A model behind an API (any OpenAI-compatible server)"
    with st.expander(title, expanded=is_api, key="api_judges", on_change="rerun") as box:
        if not box.open:
            return
        try:
            found = api_settings()
        except InputError as error:
            ui.show_error(error, "The settings of the API server cannot be used.")
            return
        _server(found)
        if found.base_url:
            _choose(found)
        _listed(chosen)


def _server(found: ApiSettings) -> None:
    """Where questions go and what a run may take; the key itself is never shown."""
    key = key_state()
    priced = f"{found.price_prompt:g} in, {found.price_completion:g} out, {found.currency} per million tokens"
    most = f"{found.max_calls:,} calls" + (f", {found.max_cost:g} {found.currency}" if found.max_cost else "")
    ui.facts(
        {
            "Server": ", ".join(found.addresses) or "none is set",
            "Key": f"set ({key.source})" if key.there else "none",
            "Cap of one run": most,
            "Prices": priced if found.priced else "not set",
            "At once": f"{found.concurrency} calls, {found.timeout_seconds:g} s each",
        }
    )
    if key.warning:
        ui.warn(key.warning)
    with st.popover("How to set these", type="tertiary", icon=":material/help:", key="api_how"):
        ui.note(
            f"In the environment before the dashboard starts, as {PREFIX}BASE_URL, {PREFIX}KEY and so on, or in the "
            f"file {secrets_file(get_settings())}, readable by you alone. The page neither takes nor shows a key, so "
            "that nobody who can open it can read it or send it elsewhere."
        )
        st.code(_EXAMPLE, language="toml")


def _choose(found: ApiSettings) -> None:
    """The model and how its answers are read; use it, or test it first."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.text_input(
            "Model", key=MODEL, max_chars=200, placeholder="its name at the server", persist_state="session",
            help="As the server calls it, for example gpt-4o-mini or meta-llama/Llama-3.1-8B-Instruct.",
        )  # fmt: skip
    with right:
        st.selectbox(
            "What is read", list(_ANSWERS), key=ANSWERS, format_func=_ANSWERS.__getitem__, persist_state="session",
            help="Token probabilities, where the server shows them, give a score between the grades from one call; "
            "a text only the grade it names.",
        )  # fmt: skip
    if st.session_state.get(ANSWERS) not in {"probabilities", DECISION}:
        st.slider(
            "Answers to each prompt, where text is read", 1, 20, key=SAMPLES, persist_state="session",
            help="More than one are drawn at temperature 1 and averaged; each is a call of its own.",
        )  # fmt: skip
    spec, problem = _spec()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Use this model", type="primary", key="api_use", disabled=not spec, on_click=_use, args=(spec,))
        test = st.button("Test connection", icon=":material/network_check:", key="api_test", disabled=not spec)
        ui.note(problem or f"A test sends one short question to {found.hosts}.")
    if test:
        _test(spec)
    result = st.session_state.get(_RESULT)
    if isinstance(result, dict) and result["spec"] == spec:
        show_result(result)


def _spec() -> tuple[str, str]:
    """The spec that the controls say, or an empty one and what is missing."""
    model = state.text(MODEL).strip().removeprefix("api:").removeprefix("decision:")
    if not model:
        return "", "Name a model."
    options = []
    if state.text(ANSWERS, "auto") == DECISION:
        return _checked(f"decision:{model}")
    answers, samples = state.text(ANSWERS, "auto"), int(st.session_state.get(SAMPLES) or 1)
    if answers != "auto":
        options.append(f"answers={answers}")
    if samples > 1 and answers != "probabilities":
        options.append(f"samples={samples}")
    return _checked(f"api:{model}{'?' if options else ''}{'&'.join(options)}")


def _checked(spec: str) -> tuple[str, str]:
    try:
        catalog.parse_api(spec)
    except InputError as error:
        return "", str(error)
    return spec, ""


def _use(spec: str) -> None:
    try:
        catalog.remember_model(spec)
    except EngineError as error:
        state.say_after_rerun(str(error))
        return
    st.session_state.pop(_FORGOTTEN, None)
    state.after_rerun({state.JUDGE: spec})
    state.say_after_rerun(f"The judge is now {catalog.describe_judge(spec).title}, on every page.")


def _test(spec: str) -> None:
    """One question through the worker; what comes back stays until another model is named."""
    result: dict[str, Any] = {"spec": spec}
    try:
        with st.spinner("Asking the server …"):
            result |= manager().ask("api_test", {"judge": spec}, timeout_s=LONGEST_TEST_S)
    except EngineError as error:
        result["error"] = str(error)
    st.session_state[_RESULT] = result


def _listed(chosen: str) -> None:
    """The models chosen so far, to go back to or to take off the list."""
    known = catalog.known_models()
    forgotten = str(st.session_state.get(_FORGOTTEN, ""))
    if known:
        ui.note("On the list of judges:")
    for spec in known:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"api_row_{spec}"):
            ui.finding(catalog.describe_judge(spec).title)
            st.button("Use", key=f"api_use_{spec}", disabled=spec == chosen, on_click=_use, args=(spec,))
            st.button(
                "Remove", key=f"api_forget_{spec}", type="tertiary", icon=":material/delete:", on_click=_forget,
                args=(spec,), help="Takes it off the list. Runs made with it stay, and so do its kept answers.",
            )  # fmt: skip
    if forgotten:
        st.button("Undo: put it back on the list", key="api_undo", type="tertiary", on_click=_undo, args=(forgotten,))


def _forget(spec: str) -> None:
    catalog.forget_model(spec)
    if spec in catalog.known_models():
        state.say_after_rerun("This model is named in the settings, so it stays on the list.")
        return
    st.session_state[_FORGOTTEN] = spec
    if state.text(state.JUDGE) == spec:
        state.after_rerun({state.JUDGE: state.DEFAULT_JUDGE})


def _undo(spec: str) -> None:
    st.session_state.pop(_FORGOTTEN, None)
    catalog.remember_model(spec)
