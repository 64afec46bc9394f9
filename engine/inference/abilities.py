"""What a server can do, as its answers show it, and what a run's manifest says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.inference.completions import Way
from engine.inference.served import ApiClient

GROUPS = ("labels", "choice", "text", "decision")
"""Groups of questions; each is asked in a way of its own."""
_met: dict[tuple[str, str], dict[str, Any]] = {}


def abilities(ways: Mapping[str, Way]) -> dict[str, Any]:
    """Abilities behind the ways that were found, by group; what was not asked for is absent."""
    found: dict[str, Any] = {}
    if labels := ways.get("labels"):
        found["label_tokens_by_id"] = labels.ids
        found["top_logprobs"] = labels.top
    if choice := ways.get("choice"):
        found["held_to_labels"] = choice.choice
    if decision := ways.get("decision"):
        found["decisions"] = decision.route
    if text := ways.get("text"):
        found["seed"] = text.seed
    spoken = [way for group, way in ways.items() if group in {"labels", "choice", "text"}]
    if spoken:
        always, switched = any(way.room for way in spoken), any(way.plain for way in spoken)
        found["thinking"] = "always" if always else "switched off" if switched else "none seen"
    return found


def server_version(client: ApiClient) -> str:
    """Version that vLLM or Ollama tells; empty elsewhere (llama.cpp writes it into each `system_fingerprint`)."""
    for path in ("version", "api/version"):
        body = client.raw(path)
        if isinstance(body, dict) and isinstance(body.get("version"), str):
            return client.redacted(body["version"])
    return ""


def note_server(host: str, model: str, found: Mapping[str, Any]) -> None:
    """Remember for this process what a server showed."""
    _met.setdefault((host, model), {}).update(found)


def noted_server(host: str, model: str) -> dict[str, Any]:
    """What a server showed in this process; empty where it was not asked."""
    return dict(_met.get((host, model), {}))
