"""The gallery of judges: what ships, an everyday model, and one's own from the Hub, a file, a server or an API."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit import config

from dashboard import state, ui
from dashboard.progress import newest_job
from dashboard.server.guard import is_loopback
from engine import catalog
from engine.core.errors import INSTALL_LOCAL, MODELS, EngineError, InputError, lacking
from engine.core.settings import api_settings, get_settings, use_local_server
from engine.jobs.manager import Job, manager

HUB_NAME, PATH, OPEN = "gallery_hub_name", "gallery_path", "gallery_open"
_PLAN, _SERVERS = "gallery_plan", "gallery_servers"
_POLL_S = 1.0
_ICONS = {
    "here": ":material/check_circle:",
    "recorded": ":material/history:",
    "to download": ":material/download:",
}


def gallery() -> None:
    """The cards, four a row, and below them what the chosen one needs."""
    entries = catalog.gallery()
    current = catalog.split_spec(state.text(state.JUDGE)).model
    for begin in range(0, len(entries), 4):
        for column, entry in zip(st.columns(4, gap="small"), entries[begin : begin + 4], strict=False):
            with column:
                _card(entry, chosen=bool(entry.spec) and entry.spec == current)
    _own_models(current)
    panels: dict[str, Callable[[], None]] = {"everyday": _everyday, "hub": _hub, "folder": _folder, "server": _servers}
    if panel := panels.get(state.text(OPEN)):
        with st.container(border=True, key="gallery_panel"):
            if panel is not _servers and lacking(MODELS):
                ui.show_error(f"Type: {INSTALL_LOCAL}", "Models on this machine need libraries that are not installed.")
            else:
                panel()


def _card(entry: catalog.GalleryEntry, *, chosen: bool) -> None:
    with st.container(border=True, height="stretch", key=f"gallery_card_{entry.key}"):
        ui.finding(entry.title)
        ui.note(entry.about)
        ui.note(" · ".join(filter(None, (entry.size, entry.licence))))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if entry.spec:
                st.badge(entry.state, icon=_ICONS[entry.state], color="green" if entry.state == "here" else "gray")
            if chosen:
                st.badge("in use", icon=":material/gavel:", color="blue")
            elif entry.spec:
                st.button("Use", key=f"gallery_use_{entry.key}", on_click=use, args=(entry.spec,))
            if entry.key == "api":
                if st.button("Set up", key="gallery_setup_api"):
                    st.session_state["api_judges"] = True
                    st.switch_page("pages/start/page.py")
            elif not entry.spec or (entry.key == "everyday" and entry.state != "here"):
                label = "Fetch" if entry.spec else "Choose"
                st.button(label, key=f"gallery_open_{entry.key}", on_click=state.put, args=(OPEN, entry.key))


def use(spec: str) -> None:
    """Make a judge the current one on every page; called from a callback."""
    state.after_rerun({state.JUDGE: spec})
    state.say_after_rerun(f"The judge is now {catalog.describe_judge(spec).title}, on every page.")


def _use_own(spec: str) -> None:
    try:
        use(catalog.remember_own(spec))
    except EngineError as error:
        state.say_after_rerun(str(error))


def _own_models(current: str) -> None:
    """Models chosen here before, each to use again or to take off the list."""
    for at, spec in enumerate(catalog.own_models()):
        card = catalog.describe_judge(spec)
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"gallery_own_{at}"):
            ui.finding(card.title)
            ui.note(card.about)
            st.button("Use", key=f"gallery_own_use_{at}", disabled=spec == current, on_click=use, args=(spec,))
            st.button(
                "Remove", key=f"gallery_own_remove_{at}", type="tertiary", icon=":material/delete:",
                on_click=catalog.forget_own, args=(spec,), help="Takes it off the list; its files and runs stay.",
            )  # fmt: skip


def _everyday() -> None:
    ui.finding("The everyday model answers live once its weights are here; until then its recorded runs are shown.")
    _fetching(catalog.EVERYDAY.partition(":")[2])


def _hub() -> None:
    ui.finding("Name a model of the Hugging Face Hub. Size and licence are shown before anything is fetched.")
    name = st.text_input(
        "Owner and name", key=HUB_NAME, placeholder="Qwen/Qwen2.5-1.5B-Instruct", max_chars=200,
        persist_state="session", help="A revision may follow, as in OWNER/NAME@REVISION; else the newest is pinned.",
    )  # fmt: skip
    name = str(name or "").strip().removeprefix("hf:")
    if not name:
        return
    try:
        catalog.check_own(f"hf:{name}")
    except InputError as error:
        ui.show_error(error, "This names no model.")
        return
    _fetching(name)


def _fetching(name: str) -> None:
    """Look a model up, fetch it, use it: one step at a time."""
    job = newest_job("hub_fetch", name=name.partition("@")[0])
    if catalog.is_here(name, get_settings()):
        ui.note("It is on this machine, checked and pinned to its commit.")
        st.button("Use as the judge", type="primary", key="hub_use", on_click=_use_own, args=(f"hf:{name}",))
    elif job and job.active:
        st.fragment(_progress, run_every=_POLL_S)(job.job_id)
    elif not _shared(f"judgescope doctor --fetch hf:{name}"):
        if job and job.state != "done":
            _broke_off(job)
        _look_up(name)


def _look_up(name: str) -> None:
    if st.button("Show size and licence", key="hub_look", icon=":material/search:", help="Asks the Hub."):
        try:
            with st.spinner("Asking the Hub …"):
                st.session_state[_PLAN] = (name, catalog.look_up(name))
        except EngineError as error:
            st.session_state.pop(_PLAN, None)
            ui.show_error(error, "It cannot be fetched from here.")
    held = st.session_state.get(_PLAN)
    if held and held[0] == name:
        model: catalog.HubModel = held[1]
        ui.note(model.sentence())
        label = f"Fetch {catalog.megabytes(model.size)}"
        st.button(
            label, type="primary", key="hub_fetch_model", icon=":material/download:", on_click=_start, args=(model,)
        )


def _start(model: catalog.HubModel) -> None:
    try:
        manager().submit("hub_fetch", {"name": model.name, "revision": model.revision})
    except EngineError as error:
        state.say_after_rerun(str(error))


def _progress(job_id: str) -> None:
    job = manager().get(job_id)
    if job is None or not job.active:
        st.rerun()
    elif job.total:
        st.progress(job.fraction, text=f"{catalog.megabytes(job.done)} of {catalog.megabytes(job.total)}")
    else:
        st.progress(0.0, text="Waiting for its turn." if job.state == "queued" else "Asking the Hub.")
    if job:
        st.button("Stop", key="hub_stop", icon=":material/stop:", on_click=manager().cancel, args=(job_id,),
                  help="What is here is kept, and the next download goes on there.")  # fmt: skip


def _broke_off(job: Job) -> None:
    ui.show_error(job.error or "It was stopped.", "The download is not complete. What is here is kept.")
    st.button(
        "Go on", type="primary", key="hub_resume", icon=":material/play_arrow:", on_click=_resume, args=(job.job_id,)
    )


def _resume(job_id: str) -> None:
    try:
        manager().resume(job_id)
    except EngineError as error:
        state.say_after_rerun(str(error))


def _shared(remedy: str) -> bool:
    """True, and said, where other machines can reach this page: visitors set up nothing on the machine it runs on."""
    if is_loopback(config.get_option("server.address") or ""):
        return False
    ui.finding("Other machines can reach this dashboard, so a page sets up no models on it.")
    ui.note(f"Whoever runs it can: {remedy}.")
    return True


def _folder() -> None:
    if not get_settings().model_roots and _shared("JUDGESCOPE_MODEL_ROOTS allows folders"):
        return
    ui.finding("Name a folder saved by transformers, or a .gguf file with its tokenizer inside.")
    path = st.text_input("Path on this machine", key=PATH, placeholder="/models/qwen.gguf", max_chars=1000,
                         persist_state="session")  # fmt: skip
    ui.note("A .gguf file is unpacked once into the cache, about eight times its size for 4 bits.")
    spec = f"path:{str(path or '').strip().removeprefix('path:')}"
    st.button(
        "Use as the judge", type="primary", key="folder_use", disabled=spec == "path:", on_click=_use_own, args=(spec,)
    )


def _servers() -> None:
    if _shared("judgescope doctor --servers"):
        return
    ui.finding("Look for model servers at their usual ports on this machine. Nothing is asked before you press.")
    if st.button("Look for servers", key="servers_look", icon=":material/search:"):
        with st.spinner("Asking three ports of this machine …"):
            st.session_state[_SERVERS] = catalog.local_servers()
    found: list[catalog.LocalServer] = st.session_state.get(_SERVERS) or []
    for server in found:
        if not server.found:
            ui.note(f"{server.name} ({server.url}): {server.problem}.")
            continue
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            model = st.selectbox(f"{server.name} at {server.url}", server.models, key=f"server_model_{server.name}")
            st.button("Use", key=f"server_use_{server.name}", type="primary", on_click=_use_server,
                      args=(server.url, str(model)))  # fmt: skip


def _use_server(url: str, model: str) -> None:
    try:
        if api_settings().base_url != url:
            use_local_server(url)
        spec = f"api:{model}"
        catalog.remember_model(spec)
        use(spec)
    except EngineError as error:
        state.say_after_rerun(str(error))
