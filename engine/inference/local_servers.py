"""Model servers on this machine, looked for when somebody asks: Ollama, vLLM, llama.cpp at their usual ports."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.error import HTTPError

PORTS: Mapping[str, int] = {"Ollama": 11434, "vLLM": 8000, "llama.cpp": 8080}
"""Usual port of each server; all three list their models at /v1/models."""
TIMEOUT_S = 1.5
_MOST_BYTES, _MOST_MODELS = 1_000_000, 200


class LocalServer(NamedTuple):
    """What answers at a port of this machine.

    Attributes:
        name: of the server that usually has this port.
        url: base URL for `api:` judges.
        models: their names at the server.
        problem: why it lists none; empty where nothing is wrong.
    """

    name: str
    url: str
    models: tuple[str, ...]
    problem: str

    @property
    def found(self) -> bool:
        """A server with models answers."""
        return bool(self.models)


def local_servers(ports: Mapping[str, int] = PORTS) -> list[LocalServer]:
    """Ask each port of this machine once, all at the same time; no key and no text is sent."""
    with ThreadPoolExecutor(max_workers=len(ports)) as pool:
        return list(pool.map(lambda one: _ask(*one), ports.items()))


def _ask(name: str, port: int) -> LocalServer:
    url = f"http://127.0.0.1:{port}/v1"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
    try:
        with opener.open(f"{url}/models", timeout=TIMEOUT_S) as answer:
            models = _names(json.loads(answer.read(_MOST_BYTES)))
    except HTTPError as error:
        return LocalServer(name, url, (), f"something answers with status {error.code}, and lists no models")
    except OSError:
        return LocalServer(name, url, (), "nothing answers")
    except (ValueError, RecursionError):
        return LocalServer(name, url, (), "something answers that is no model server")
    return LocalServer(name, url, models, "" if models else "it answers and has no model loaded")


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: nothing outside this machine is contacted."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _names(body: Any) -> tuple[str, ...]:
    """Model names of the list that OpenAI-compatible servers give.

    Raises:
        ValueError: it is none.
    """
    listed = body.get("data") if isinstance(body, dict) else None
    if not isinstance(listed, list) and not (isinstance(body, dict) and "data" in body and listed is None):
        raise ValueError("no list of models")
    ids = [str(one["id"]) for one in listed or [] if isinstance(one, dict) and one.get("id")]
    return tuple(ids[:_MOST_MODELS])
