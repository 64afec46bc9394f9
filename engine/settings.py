"""Where things live and what the environment says; the only reader of environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Settings:
    """Resolved once per process by `get_settings`.

    Attributes:
        data_dir: datasets, runs and jobs the user made; never deleted by us.
        cache_dir: weights and judge calls; safe to delete.
        assets: what ships with the project (adapter, cards, demo data).
        gguf: a GGUF file to use in place of the fetched one (`JUDGESCOPE_GGUF`).
        device: `auto`, `cpu`, `cuda` or `cuda:N` (`JUDGESCOPE_DEVICE`).
        threads: CPU threads for the forward pass; 0 leaves torch's choice (`JUDGESCOPE_THREADS`).
        model_roots: folders that `path:` models must lie in (`JUDGESCOPE_MODEL_ROOTS`, separated like PATH);
            empty allows any.
        token: what visitors of the dashboard must know, where other machines can reach it (`JUDGESCOPE_TOKEN`).
        runs_in: a folder of runs other than the data folder's, such as a study's `--out`.
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

    @property
    def datasets(self) -> Path:
        """Uploaded datasets, one folder each, named by content digest."""
        return self.data_dir / "datasets"

    @property
    def comparisons(self) -> Path:
        """Uploaded sets of pairs, one folder each, named by content digest."""
        return self.data_dir / "comparisons"

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
    def api_models(self) -> Path:
        """Names of the API models that were chosen on this machine; no key is ever in it."""
        return self.data_dir / "api_models.json"


def environment() -> dict[str, str]:
    """What the environment says of an API judge's server and key, and where secrets lie; for `settings_api` alone."""
    wanted = ("JUDGESCOPE_API_", "JUDGESCOPE_SECRETS", "OPENAI_API_KEY", "OPENAI_BASE_URL")
    return {name: value for name, value in os.environ.items() if name.startswith(wanted) and value.strip()}


def child_environment(**changes: str) -> dict[str, str]:
    """The environment for a process we start, with some variables of its own: a benchmark's home, for example."""
    return {**os.environ, **changes}


def get_settings() -> Settings:
    """Read the environment: `JUDGESCOPE_HOME`, `_CACHE`, `_GGUF`, `_DEVICE`, `_THREADS`, `_MODEL_ROOTS`, `_TOKEN`."""
    env = os.environ
    home = env.get("JUDGESCOPE_HOME")
    cache = env.get("JUDGESCOPE_CACHE")
    gguf = env.get("JUDGESCOPE_GGUF")
    return Settings(
        data_dir=Path(home).expanduser() if home else Path(platformdirs.user_data_dir("judgescope", False)),
        cache_dir=Path(cache).expanduser() if cache else Path(platformdirs.user_cache_dir("judgescope", False)),
        assets=_ROOT / "assets",
        gguf=Path(gguf).expanduser() if gguf else None,
        device=env.get("JUDGESCOPE_DEVICE", "auto"),
        threads=int(env.get("JUDGESCOPE_THREADS", "0")),
        model_roots=tuple(
            Path(root).expanduser() for root in env.get("JUDGESCOPE_MODEL_ROOTS", "").split(os.pathsep) if root
        ),
        token=env.get("JUDGESCOPE_TOKEN", "").strip(),
    )
