"""Errors a user can act on: each message names the thing, the value, what is allowed and the next step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec


class EngineError(Exception):
    """Base of every error that is somebody's to fix; its text is shown to the user as it is."""


class InputError(EngineError):
    """The user's file, setting or choice cannot be used as it stands."""


class ModelError(EngineError):
    """A judge's weights or prompt cannot be used."""


class NamedModelError(ModelError, InputError):
    """The model that the user named cannot be used."""


class WeightsError(ModelError):
    """The bundled weights are missing, corrupt or not the ones the adapter was made for."""


class LocalError(NamedModelError):
    """Something asks for a model on this machine, and the extra `local` is not installed."""


class RunError(EngineError):
    """A run folder is missing or unreadable."""


class WriteError(InputError, RunError):
    """A file cannot be written: no space, no right, a file where a folder should be. What was there is kept."""


class RunNameError(RunError, InputError):
    """The id given for a run cannot name one."""


class JobError(EngineError):
    """A job could not be queued, or the worker failed while running it."""


class Cancelled(Exception):  # noqa: N818 - an outcome, not an error
    """Raised inside a job when its owner asked it to stop; what is done is kept."""


class OutOfCalls(EngineError, Cancelled):  # noqa: N818 - an outcome, not an error
    """The cap on an API judge's calls or cost is reached: the run stops like one that was stopped, and says why."""


def shown(value: object, most: int = 60) -> str:
    """A user's value as a message quotes it: in quotes, and cut where it is longer than `most` characters."""
    text = str(value)
    return repr(text) if len(text) <= most else f"{text[:most]!r}… ({len(text):,} characters)"


def listed(values: Iterable[object], most: int = 12) -> str:
    """Names in a message: the first `most`, each cut where it is long, and how many more there are."""
    names = [str(value) for value in values]
    parts = [name if len(name) <= 60 else f"{name[:60]}…" for name in names[:most]]
    return ", ".join(parts) + (f" and {len(names) - most:,} more" if len(names) > most else "")


MODELS = {
    "torch": "torch",
    "transformers": "transformers",
    "peft": "peft",
    "gguf": "gguf",
    "safetensors": "safetensors",
}
"""What a model on this machine takes: a module, and the package that holds it."""
UMAP = {"umap": "umap-learn", "sklearn": "scikit-learn", "numba": "numba"}
"""The same for maps by UMAP."""
WEIGHTED = {"ot": "POT"}
"""The same for partial transport with weights that are not uniform."""
INSTALL_LOCAL = "pip install 'judgescope[local]'"


def lacking(modules: Iterable[str]) -> list[str]:
    """Those of the modules that are not installed; none is loaded."""

    def absent(name: str) -> bool:
        try:
            return find_spec(name) is None
        except (ImportError, ValueError):  # something forbids it
            return True

    return [name for name in modules if absent(name)]


def require_local(what: str, packages: Mapping[str, str] = MODELS) -> None:
    """Refuse what the extra `local` is needed for, where it is not installed.

    Args:
        what: the thing that was asked for, at the head of the message.
        packages: module -> package.

    Raises:
        LocalError: a package is missing; the message ends with the command that installs all of them.
    """
    if missing := lacking(packages):
        raise LocalError(
            f"{what} needs {listed(packages[name] for name in missing)}, not installed here: this is the light "
            f"installation, without models of its own. Type: {INSTALL_LOCAL}"
        )


OK, OUR_FAULT, USER_INPUT, INCONCLUSIVE, THRESHOLD_FAILED, STOPPED = 0, 1, 2, 3, 4, 130
"""Exit codes of the command line."""
