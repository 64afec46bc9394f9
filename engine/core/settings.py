"""Where things live and what the environment says; the only reader of environment variables."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import platformdirs

from engine.core.errors import InputError, shown
from engine.core.files import make_folder, write_atomically

_ENGINE = Path(__file__).resolve().parents[1]
_ASSETS = _ENGINE / "assets" if (_ENGINE / "assets").is_dir() else _ENGINE.parent / "assets"
"""Inside the package where a wheel was installed, beside it in the repository."""
MOST_THREADS = 1024
"""Most CPU threads that `JUDGESCOPE_THREADS` may name."""
MOST_ACTORS, MOST_SHARD = 4096, 65536
"""Most actors and calls of a shard that `JUDGESCOPE_RAY_ACTORS` and `JUDGESCOPE_RAY_SHARD` may name."""


@dataclass(frozen=True)
class Settings:
    """Resolved once per process by `get_settings`.

    Attributes:
        data_dir: datasets, runs and jobs the user made; never deleted by us.
        cache_dir: weights and judge calls; safe to delete.
        assets: what ships with the project (adapter, cards, demo data).
        gguf: a GGUF file to use in place of the fetched one (`JUDGESCOPE_GGUF`).
        device: `auto`, `cpu`, `cuda`, `cuda:N`, or `split` for one model by layers over all GPUs (`JUDGESCOPE_DEVICE`).
        devices: a study's judge is held by a process on each of these (`JUDGESCOPE_DEVICES`, with commas between them);
            empty for one in the process itself, on `device`.
        threads: CPU threads for the forward pass; 0 leaves torch's choice (`JUDGESCOPE_THREADS`).
        model_roots: folders that `path:` models must lie in (`JUDGESCOPE_MODEL_ROOTS`, separated like PATH);
            empty allows any.
        token: what visitors of the dashboard must know, where other machines can reach it (`JUDGESCOPE_TOKEN`).
        fetch_models: true where a judge that is named and not here is fetched; a page asks first.
        runs_in: a folder of runs other than the data folder's, such as a study's `--out`.
        warm: the dashboard loads its first judge when it starts (`JUDGESCOPE_WARM=0` waits for a question).
        ray: the Ray cluster over which a study's calls are spread: `auto`, `local`, an address, or empty for none
            (`JUDGESCOPE_RAY`).
        ray_actors: actors there at most; 0 for as many as there is room for (`JUDGESCOPE_RAY_ACTORS`).
        ray_shard: calls of a shard; 0 leaves it to what the actors run on (`JUDGESCOPE_RAY_SHARD`).
    """

    data_dir: Path
    cache_dir: Path
    assets: Path
    gguf: Path | None
    device: str
    threads: int
    model_roots: tuple[Path, ...] = ()
    token: str = field(default="", repr=False)
    runs_in: Path | None = None
    warm: bool = True
    fetch_models: bool = True
    devices: tuple[str, ...] = ()
    ray: str = ""
    ray_actors: int = 0
    ray_shard: int = 0

    @property
    def datasets(self) -> Path:
        """Uploaded datasets, one folder each, named by content digest."""
        return self.data_dir / "datasets"

    @property
    def comparisons(self) -> Path:
        """Uploaded sets of pairs, one folder each, named by content digest."""
        return self.data_dir / "comparisons"

    @property
    def labelled(self) -> Path:
        """Uploaded verdicts with people's labels on a part, one folder each, named by content digest."""
        return self.data_dir / "labelled"

    @property
    def cards(self) -> Path:
        """Judge cards the user saved, one TOML file each."""
        return self.data_dir / "cards"

    @property
    def embeddings(self) -> Path:
        """Embeddings given for the transport audit, named by content digest."""
        return self.data_dir / "embeddings"

    @property
    def recordings(self) -> Path:
        """Verdicts that came in files of known formats, each a recorded judge."""
        return self.data_dir / "recordings"

    @property
    def pools(self) -> Path:
        """Counterfactual references of the user's own, named by content digest."""
        return self.data_dir / "pools"

    @property
    def labels(self) -> Path:
        """Labelling sessions, one folder each: the plan and people's answers."""
        return self.data_dir / "labels"

    @property
    def runs(self) -> Path:
        """Run folders (parquet tables and a manifest)."""
        return self.runs_in or self.data_dir / "runs"

    @property
    def jobs(self) -> Path:
        """One JSON file per job, so that a job outlives the page and the server."""
        return self.data_dir / "jobs"

    @property
    def calls(self) -> Path:
        """The SQLite cache of judge calls."""
        return self.cache_dir / "calls.sqlite"

    @property
    def weights(self) -> Path:
        """The fetched GGUF and the dequantised safetensors."""
        return self.cache_dir / "weights"

    @property
    def models(self) -> Path:
        """Models of the Hub that were fetched, and unpacked GGUF files."""
        return self.cache_dir / "models"

    @property
    def own_models(self) -> Path:
        """Models of the Hub, folders and files that were chosen as judges on this machine."""
        return self.data_dir / "own_models.json"

    @property
    def api_models(self) -> Path:
        """Names of the API models that were chosen on this machine; no key is ever in it."""
        return self.data_dir / "api_models.json"


def environment() -> dict[str, str]:
    """The environment's settings of an API judge's server, key and secrets file; for `settings_api` alone."""
    wanted = ("JUDGESCOPE_API_", "JUDGESCOPE_SECRETS", "OPENAI_API_KEY", "OPENAI_BASE_URL")
    return {name: value for name, value in os.environ.items() if name.startswith(wanted) and value.strip()}


def child_environment(**changes: str) -> dict[str, str]:
    """The environment for a process we start, with some variables of its own: a benchmark's home, for example."""
    return {**os.environ, **changes}


def get_settings() -> Settings:
    """Read the environment: `JUDGESCOPE_HOME`, `_CACHE`, `_GGUF`, `_DEVICE`, `_THREADS`, `_MODEL_ROOTS`, `_TOKEN`.

    And `_DEVICES`, `_RAY`, `_RAY_ACTORS`, `_RAY_SHARD`; and `_WARM`: 0 lets the dashboard load no judge before somebody
    asks.

    Raises:
        InputError: one that is a number is none, or out of its range, or `JUDGESCOPE_DEVICES` is no list of devices.
    """
    env = os.environ
    home = env.get("JUDGESCOPE_HOME")
    cache = env.get("JUDGESCOPE_CACHE")
    gguf = env.get("JUDGESCOPE_GGUF")
    token = env.get("JUDGESCOPE_TOKEN", "")
    return Settings(
        data_dir=Path(home).expanduser() if home else Path(platformdirs.user_data_dir("judgescope", False)),
        cache_dir=Path(cache).expanduser() if cache else Path(platformdirs.user_cache_dir("judgescope", False)),
        assets=_ASSETS,
        gguf=Path(gguf).expanduser() if gguf else None,
        device=env.get("JUDGESCOPE_DEVICE", "auto"),
        devices=device_list(env.get("JUDGESCOPE_DEVICES", "")),
        threads=_whole("JUDGESCOPE_THREADS", MOST_THREADS, "0 leaves the choice to torch"),
        model_roots=tuple(
            Path(root).expanduser() for root in env.get("JUDGESCOPE_MODEL_ROOTS", "").split(os.pathsep) if root
        ),
        warm=env.get("JUDGESCOPE_WARM", "1").strip() != "0",
        token=token.strip() or token,  # blanks alone are refused where somebody is to be asked, not lost
        ray=env.get("JUDGESCOPE_RAY", "").strip(),
        ray_actors=_whole("JUDGESCOPE_RAY_ACTORS", MOST_ACTORS, "0 takes all that the cluster has room for"),
        ray_shard=_whole("JUDGESCOPE_RAY_SHARD", MOST_SHARD, "0 leaves it to what the actors run on"),
    )


def device_list(text: str) -> tuple[str, ...]:
    """Devices with commas between them, such as `cuda:0,cuda:1`; one may stand twice.

    Raises:
        InputError: one of them is no device.
    """
    found = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    if wrong := [name for name in found if not re.fullmatch(r"cpu|cuda(:\d+)?", name)]:
        raise InputError(
            f"{shown(wrong[0], 40)} is no device; allowed: cpu, cuda, cuda:N. Write --devices or JUDGESCOPE_DEVICES as "
            "cuda:0,cuda:1."
        )
    return found


def quiet_ray() -> None:
    """Settings of Ray, before it is imported, where the environment has none of its own.

    It reports no usage to its makers, and holds no message back to print it after a command's last line.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")


def _whole(name: str, most: int, zero: str) -> int:
    """A variable that is a whole number from 0 to `most`; `zero` says what 0 does."""
    text = os.environ.get(name, "")
    given = text.strip() or "0"
    if not (given.isascii() and given.isdigit() and len(given) < 6 and int(given) <= most):
        raise InputError(
            f"{name} is {shown(text, 40)}; allowed: a whole number from 0 to {most}; {zero}. Set it anew or unset it."
        )
    return int(given)


# What an API judge needs to know: server, key, limits and prices, from the environment or a secrets file.
#
# Everything is read when it is used and not kept in `Settings`: the key is in no object that is printed, hashed or
# stored, and an edited file counts from the next job on.

PREFIX = "JUDGESCOPE_API_"
OPENAI_URL = "https://api.openai.com/v1"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_INVARIANT = ("yes", "no", "unknown")
_RANGES: Mapping[str, tuple[float, float]] = {
    "concurrency": (1, 512),
    "timeout_seconds": (0.05, 3600),
    "retries": (0, 10),
    "most_wait_seconds": (0, 3600),
    "requests_per_minute": (0, 100_000),
    "max_calls": (1, 10_000_000),
    "max_cost": (0, 1_000_000),
    "price_prompt": (0, 10_000),
    "price_completion": (0, 10_000),
    "top_logprobs": (1, 1000),
}


@dataclass(frozen=True)
class ApiSettings:
    """Settings of calls to the server; `JUDGESCOPE_API_<NAME>` in the environment comes before the secrets file.

    Attributes:
        base_url: where `/chat/completions` lies, for example `http://127.0.0.1:8000/v1`; several, with spaces between
            them, where several servers have the same model; empty where none is set.
        models: models to offer on the Start page.
        concurrency: most requests under way at once, over all addresses.
        timeout_seconds: longest time for one whole answer [s].
        retries: further tries after a 429, a 5xx, a timeout or a broken answer.
        most_wait_seconds: longest wait between two tries [s]; a server that asks for more is not waited for.
        requests_per_minute: at most so many are sent; 0 leaves the pace to the server.
        max_calls: hard cap on requests of one run, retries included.
        max_cost: hard cap on what one run may cost, in the currency of the prices; 0 sets none.
        price_prompt, price_completion: per million tokens; 0 where not known or free.
        currency: of the prices, shown beside them.
        top_logprobs: alternatives asked for at the answer's first token.
        batch_invariant: `yes` where the server was started so that an answer does not depend on what else is in its
            batch (vLLM: `VLLM_BATCH_INVARIANT=1`), `no`, or `unknown`: a server does not tell. For manifests.
        perplexity_model: model at the server whose perplexity the screening defense reads; empty takes the bundled
            base model.
    """

    base_url: str = ""
    models: tuple[str, ...] = ()
    concurrency: int = 4
    timeout_seconds: float = 60.0
    retries: int = 4
    most_wait_seconds: float = 60.0
    requests_per_minute: int = 0
    max_calls: int = 5000
    max_cost: float = 0.0
    price_prompt: float = 0.0
    price_completion: float = 0.0
    currency: str = "USD"
    top_logprobs: int = 20
    batch_invariant: str = "unknown"
    perplexity_model: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Base URLs, each once."""
        return tuple(dict.fromkeys(self.base_url.split()))

    @property
    def host(self) -> str:
        """Host of the first address, and port where one is named; what names the server in a manifest and in keys."""
        return urlsplit(self.base_url.partition(" ")[0]).netloc.lower()

    @property
    def hosts(self) -> str:
        """As `host`, and how many more there are, for people."""
        more = len(self.addresses) - 1
        return f"{self.host} and {more} more" if more > 0 else self.host

    @property
    def loopback(self) -> bool:
        """True where every server is this machine."""
        return bool(self.addresses) and all(is_loopback(url) for url in self.addresses)

    @property
    def priced(self) -> bool:
        """True where a cost can be estimated."""
        return self.price_prompt > 0 or self.price_completion > 0

    def money(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Cost of so many tokens."""
        return (prompt_tokens * self.price_prompt + completion_tokens * self.price_completion) / 1e6


def is_loopback(url: str) -> bool:
    """True where the server is this machine."""
    return urlsplit(url).hostname in _LOOPBACK


class KeyState(NamedTuple):
    """Where the key comes from, for people; never the key.

    Attributes:
        there: true where there is one.
        source: for example "environment variable JUDGESCOPE_API_KEY".
        warning: what is wrong with where it is kept; empty if nothing is.
    """

    there: bool
    source: str
    warning: str = ""


def api_settings(settings: Settings | None = None) -> ApiSettings:
    """Read the environment and the secrets file.

    Raises:
        InputError: a value is of the wrong kind or out of range, the file is no TOML, or the base URL is none.
    """
    settings = settings or get_settings()
    path = secrets_file(settings)
    given = {key: (value, f"[api] {key} in {path.name}") for key, value in _section(path).items() if key != "key"}
    known = {f.name for f in fields(ApiSettings)}
    env = environment()
    for name in known:
        if (value := env.get(PREFIX + name.upper())) is not None:
            given[name] = (value, PREFIX + name.upper())
    if unknown := sorted(set(given) - known):
        raise InputError(
            f"{path.name} has [api] {unknown[0]}, which is no setting. Known: key, {', '.join(sorted(known))}."
        )
    made = {name: _value(name, value, where) for name, (value, where) in given.items()}
    if not made.get("base_url"):
        made["base_url"] = env.get("OPENAI_BASE_URL") or (OPENAI_URL if env.get("OPENAI_API_KEY") else "")
    made["base_url"] = " ".join(_checked_url(url) for url in str(made["base_url"]).split())
    return ApiSettings(**made)


def use_local_server(url: str, settings: Settings | None = None) -> None:
    """Write a server of this machine as the one that is asked into a new secrets file, where no server is set yet.

    Raises:
        InputError: it is no server of this machine, or another one is set already: a key must never reach a server
            that it was not meant for.
    """
    settings = settings or get_settings()
    path = secrets_file(settings)
    if not ApiSettings(base_url=_checked_url(url)).loopback:
        raise InputError(f"{shown(url)} is no server of this machine.")
    if path.exists() or api_settings(settings).base_url or key_state(settings).there:
        raise InputError(
            f'Another server or a key is set already. To use this one, set base_url = "{url}" in the table [api] of '
            f"{path}, or {PREFIX}BASE_URL={url}."
        )
    make_folder(path.parent)
    write_atomically(path, f'[api]\nbase_url = "{url}"\n'.encode())


def api_key(settings: Settings | None = None) -> str:
    """The key, or an empty text: to be put into a request's header and nowhere else.

    `OPENAI_API_KEY` goes to `OPENAI_BASE_URL` or OpenAI's own server alone, never to another base URL.

    Raises:
        InputError: it has a character that no header can hold; the message does not repeat it.
    """
    settings = settings or get_settings()
    key = _found_key(settings)[0].strip()
    if any(not "!" <= c <= "~" for c in key):
        raise InputError("The API key has a space or a character outside ASCII, so it is no key. Check how it was set.")
    return key


def key_state(settings: Settings | None = None) -> KeyState:
    """Presence of a key and its origin."""
    settings = settings or get_settings()
    key, source = _found_key(settings)
    path = secrets_file(settings)
    kept_here = path.is_file() and "key" in _section(path)
    loose = kept_here and bool(path.stat().st_mode & 0o077)
    warning = f"Other users of this machine can read {path.name}; run chmod 600 on it." if loose else ""
    return KeyState(bool(key), source, warning)


def offered_models(settings: Settings) -> tuple[str, ...]:
    """Models that the environment or the secrets file names; none where a setting is wrong.

    Every page lists them, so the file is read again only when it has changed.
    """
    path = secrets_file(settings)
    try:
        seen = path.stat()
        stamp = (seen.st_mtime_ns, seen.st_size)
    except OSError:
        stamp = (0, 0)
    return _offered(settings, path, stamp, environment().get(f"{PREFIX}MODELS", ""))


@lru_cache(maxsize=8)
def _offered(settings: Settings, path: Path, stamp: tuple[int, int], named: str) -> tuple[str, ...]:
    del path, stamp, named
    try:
        return api_settings(settings).models
    except InputError:
        return ()


def secrets_file(settings: Settings) -> Path:
    """`JUDGESCOPE_SECRETS`, or `secrets.toml` in the user's data folder."""
    named = environment().get("JUDGESCOPE_SECRETS")
    return Path(named).expanduser() if named else settings.data_dir / "secrets.toml"


def _found_key(settings: Settings) -> tuple[str, str]:
    env = environment()
    if key := env.get(f"{PREFIX}KEY", ""):
        return key, f"environment variable {PREFIX}KEY"
    path = secrets_file(settings)
    if key := str(_section(path).get("key", "")):
        return key, f"secrets file {path.name}"
    theirs = env.get("OPENAI_BASE_URL") or OPENAI_URL
    if env.get("OPENAI_API_KEY") and api_settings(settings).base_url == _checked_url(theirs):
        return env["OPENAI_API_KEY"], "environment variable OPENAI_API_KEY"
    return "", "no key is set"


def _section(path: Path) -> dict[str, Any]:
    """The table [api] of the secrets file; empty where there is none."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("api", {})
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        raise InputError(
            f"The secrets file {path.name} cannot be read. Check its rights and that it is UTF-8."
        ) from None
    except (ValueError, RecursionError):
        # the parser's own message may quote the file, and so the key
        raise InputError(
            f'The secrets file {path.name} is not valid TOML. It has a table [api] with key = "...".'
        ) from None
    if not isinstance(found, dict):
        raise InputError(f"{path.name}: api is no table. Write [api] on a line of its own.")
    return found


def _value(name: str, value: Any, where: str) -> Any:
    """A setting as its kind, checked."""
    if name == "models":
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(p, str) for p in parts):
            raise InputError(f"{where} is no list of model names.")
        return tuple(p.strip() for p in parts if p.strip())
    if name == "base_url":
        parts = value if isinstance(value, list) else [value]
        return " ".join(str(part).replace(",", " ") for part in parts).strip()
    if name in {"currency", "perplexity_model"}:
        return str(value).strip()
    if name == "batch_invariant":
        if value not in _INVARIANT:
            raise InputError(f"{where} is {shown(value, 40)}; allowed: {', '.join(_INVARIANT)}.")
        return str(value)
    low, high = _RANGES[name]
    whole = isinstance(getattr(ApiSettings, name), int)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        raise InputError(f"{where} is {shown(value, 40)}; allowed: {kind} from {low:g} to {high:g}.")
    return int(number) if whole else number


def _checked_url(url: str) -> str:
    """The base URL without a trailing slash.

    Raises:
        InputError: it is none, or it holds a name and password, which would end up in logs.
    """
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in {"http", "https"} or not parts.hostname or bool(parts.query or parts.fragment)
        inside, _ = parts.username or parts.password, parts.port
    except ValueError:
        wrong, inside = True, ""
    if inside:
        raise InputError(f"The API base URL holds a name or a password. Take it out and set the key as {PREFIX}KEY.")
    if wrong:
        raise InputError(
            f"{PREFIX}BASE_URL is no base URL of a server: write http:// or https://, a host and the path up to /v1, "
            "for example http://127.0.0.1:8000/v1."
        )
    return url.rstrip("/")
