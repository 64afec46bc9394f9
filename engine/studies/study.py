"""Interface of a study. Each study is one object in its own folder; the registry names it once.

The worker, the command line, figures, runs, report and pages learn everything about a study from this object.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from engine.core.errors import OK
from engine.core.gate import Check
from engine.core.schema import Table
from engine.core.settings import Settings
from engine.judges.base import Checkpoint, Judge, no_checkpoint
from engine.runs.folder import RunFolder, create_run

if TYPE_CHECKING:
    from engine.data.comparisons import Comparisons
    from engine.data.dataset import Dataset
    from engine.data.labelled import Labelled
    from engine.judges.cards import Card
    from engine.studies.figure import FigureSpec
    from engine.studies.running import Plan


class Opener(Protocol):
    """Opens data by name: saved data for the worker, files as well for the command line."""

    def dataset(self, name: str) -> Dataset:
        """Responses with their items."""
        ...

    def comparisons(self, name: str) -> Comparisons:
        """Pairs of responses with human preferences."""
        ...

    def holds_pairs(self, name: str) -> bool:
        """It is a set of pairs and not one of responses."""
        ...

    def labelled(self, name: str) -> Labelled:
        """Verdicts with people's labels on a part of them."""
        ...


class SavedData:
    """Opens what is saved under the user's folder, and the demo data."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._datasets: dict[str, Dataset] = {}
        self._comparisons: dict[str, Comparisons] = {}

    def dataset(self, name: str) -> Dataset:
        """A saved data set by its id; read once.

        Raises:
            InputError: there is none.
        """
        from engine.data.store import load_dataset

        if name not in self._datasets:
            self._datasets[name] = load_dataset(name, self._settings.datasets)
        return self._datasets[name]

    def comparisons(self, name: str) -> Comparisons:
        """A saved set of pairs by its id; read once.

        Raises:
            InputError: there is none.
        """
        from engine.data.comparisons import load_comparisons

        if name not in self._comparisons:
            self._comparisons[name] = load_comparisons(name, self._settings.comparisons)
        return self._comparisons[name]

    def holds_pairs(self, name: str) -> bool:
        """It is the id of a set of pairs."""
        from engine.data.comparisons import is_pairs

        return is_pairs(name, self._settings.comparisons)

    def labelled(self, name: str) -> Labelled:
        """Saved verdicts with labels by their id.

        Raises:
            InputError: there are none.
        """
        from engine.data.labelled import load_labelled

        return load_labelled(name, self._settings.labelled)


GRADIENTS = "a phrase is learned on the gradients of a model in this process"
"""Why a study's judge is not spread over a cluster."""


@dataclass(frozen=True)
class Context:
    """Means of a run besides its settings.

    Attributes:
        settings: folders, device, limits.
        checkpoint: told the progress (done, total); raises when the run is to stop.
        opener: opens data by name.
        card: a judge card that replaces the judge's prompts.
        cache: true where answers of earlier calls are used.
        local_files: true where settings may name files of this machine; only the command line allows it.
        extra: values of options that only this study's command has, for example a file of embeddings.
        seed: of the run; a server that draws its answers draws them by it.
    """

    settings: Settings
    checkpoint: Checkpoint = no_checkpoint
    opener: Opener | None = None
    card: Path | Card | None = None
    cache: bool = True
    local_files: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def seeded(self, config: Any) -> Context:
        """The same with the seed of a study's settings, where it has one."""
        return replace(self, seed=getattr(config, "seed", 0))

    @cached_property
    def data(self) -> Opener:
        """Opens data by name; one opener for the whole run, so that a file is read once."""
        return self.opener or SavedData(self.settings)

    def judge(self, spec: str, *, here: str = "", **options: Any) -> Judge:
        """The judge a spec names, with this context's card and cache; its calls spread over a cluster where one is set.

        Args:
            spec: the judge's.
            here: why this study needs the judge in its own process, whatever is set; empty where it does not.
            options: further ones of `make_judge`.

        Raises:
            InputError: no such judge, or no such cluster.
        """
        from engine.judges.registry import make_judge

        if self.settings.ray:
            from engine.judges.ray_judge import ray_judge, stays_here

            if not (why := here or stays_here(spec)):
                return ray_judge(spec, self.settings, card=self.card, cache=self.cache, **options)
            print(f"{spec} is not distributed: {why}. It answers in this process.", file=sys.stderr)
        elif self.settings.devices:
            from engine.judges.processes import spread_judge, spreads

            if not here and spreads(spec):
                return spread_judge(spec, self.settings, card=self.card, cache=self.cache, **options)
        return make_judge(spec, self.settings, card=self.card, cache=self.cache, seed=self.seed, **options)


@dataclass(frozen=True)
class Summary:
    """A finished run for the command line.

    Attributes:
        text: the printed text.
        record: content of the JSON object.
        exit_code: 0, or what the numbers ask for (3 inconclusive, 4 a threshold failed).
        checks: of a gate, what was held against a limit.
        notes: of a gate, further lines that stand beside its checks.
    """

    text: str
    record: dict[str, Any]
    exit_code: int = OK
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()


Quick = tuple[type[BaseModel], Callable[[Any, Settings, Checkpoint], dict[str, Any]]]
"""Parameters and function of a job that answers at once, for example one attacked response."""


class StudyConfig(BaseModel):
    """Settings of a run, which its manifest holds; those here every study has.

    Attributes:
        run_id: name of the run folder; by default a new one.
        level: of the intervals.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str | None = None
    level: float = Field(default=0.95, gt=0.5, lt=1)


def quick_form(given: Any, quick: Mapping[str, Any]) -> Any:
    """What a study's settings are made of: as given, or where `quick` is set with its quick form's in their place.

    Args:
        given: as a validator gets it before it is read; anything but a dict passes.
        quick: settings of the quick form; of `limit` and `k_max` the lower one counts.
    """
    if not isinstance(given, dict) or given.get("quick") not in (True, "true"):
        return given
    lower = {k: min(quick[k], given[k]) for k in ("limit", "k_max") if k in quick and isinstance(given.get(k), int)}
    return {**given, **quick, **lower}


class Study:
    """One study. A subclass sets the class attributes and writes `run` and `summary`.

    Attributes:
        kind: name of its folder; the manifest's `kind`.
        names: in study files, on the command line and in older manifests; the first one names new runs.
        title: on pages.
        config: its settings.
        tables: tables that only this study writes.
        marks: settings that only this study has; they tell runs of versions whose manifest has no `kind`.
        free: settings besides id and budget that may differ when a stopped run goes on.
        keep: keys of the manifest that a run which goes on takes with it.
        table_shown: the table without which its page has nothing to show.
        shown_when_done: true where its page shows a run only once it is done.
        resumable: a run that broke off can go on, and the unread calls of a finished one can be asked again.
        inputs: kind of `--data`: `responses`, `comparisons` or `labelled`.
        options: options of the command line that only this study reads.
        several: true where its settings name several judges, so that `--judge` repeated is one run of it.
        gate: its title as a gate of a pipeline, where its summary has checks; else empty.
    """

    kind: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    title: ClassVar[str]
    config: ClassVar[type[BaseModel]]
    tables: ClassVar[tuple[Table, ...]] = ()
    marks: ClassVar[frozenset[str]] = frozenset()
    free: ClassVar[frozenset[str]] = frozenset()
    keep: ClassVar[tuple[str, ...]] = ()
    table_shown: ClassVar[str] = "verdicts"
    shown_when_done: ClassVar[bool] = False
    resumable: ClassVar[bool] = True
    inputs: ClassVar[str] = "responses"
    options: ClassVar[frozenset[str]] = frozenset()
    several: ClassVar[bool] = False
    gate: ClassVar[str] = ""

    def prepare(self, config: Any, context: Context) -> Any:
        """The settings with their data opened and named by id.

        Raises:
            InputError: the data cannot be used.
        """
        if not hasattr(config, "data"):
            return config
        if self.inputs == "comparisons":
            return config.model_copy(update={"data": context.data.comparisons(config.data).set_id})
        return config.model_copy(update={"data": context.data.dataset(config.data).dataset_id})

    def stored(self, config: Any) -> dict[str, Any]:
        """The settings as the manifest keeps them."""
        return dict(config.model_dump())

    def begin(self, config: Any, root: Path, name: str = "") -> RunFolder:
        """A new run folder, or the same one again when a stopped run goes on.

        Args:
            config: its settings.
            root: where runs live.
            name: the one of its names that the manifest has; by default, and for its kind, the first.
        """
        called = name if name in self.names and name != self.kind else self.names[0]
        return create_run(
            root, called, self.stored(config), config.run_id, kind=self.kind, alike=self.names, free=self.free,
            keep=self.keep,
        )  # fmt: skip

    def instead(self, config: Any, context: Context, root: Path) -> Summary | None:  # noqa: ARG002 - a hook
        """Action of an option in place of a run, for example a stored run decided anew; None for a run."""
        return None

    def run(self, config: Any, context: Context, folder: RunFolder) -> None:
        """Run it: judge, measure, write tables and the state `done`.

        Raises:
            InputError: settings or data cannot be used.
            Cancelled: from the checkpoint; what is done is kept.
        """
        raise NotImplementedError

    def job(self, config: Any, context: Context, root: Path, name: str = "") -> dict[str, Any]:
        """Open the data, run into a folder under `root`, and say which; what the worker calls."""
        from engine.studies.running import ending

        config = self.prepare(config, context)
        folder = self.begin(config, root, name)
        try:
            with ending(folder):
                self.run(config, context.seeded(config), folder)
        finally:
            folder.release()
        return {"run_id": folder.run_id}

    def plan(self, config: Any, context: Context) -> tuple[dict[str, Any], str]:
        """Cost before it runs: the JSON object, and the same in words.

        Raises:
            InputError: this study cannot say, or as `run`.
        """
        from engine.studies.running import plan_text

        plan = self.cost(config, context)
        return plan._asdict(), plan_text(plan)

    def cost(self, config: Any, context: Context) -> Plan:  # noqa: ARG002 - a hook
        """Calls, tokens and seconds it would take.

        Raises:
            InputError: this study cannot say, or as `run`.
        """
        from engine.core.errors import InputError

        raise InputError(f"The study {self.names[0]} cannot say what it will take. Run it with --budget-seconds.")

    def summary(self, config: Any, folder: RunFolder) -> Summary:  # noqa: ARG002 - a hook
        """Text and JSON object for the command line, from the stored tables."""
        from engine.studies.running import metric_lines

        metrics = folder.table("metrics")
        return Summary("\n".join(metric_lines(metrics)), {"metrics": metrics.to_dict("records")})

    def figures(self) -> tuple[FigureSpec, ...]:
        """Its figures, in the order in which they are read: `ENTRIES` of the module `figures` in its folder."""
        module = f"{type(self).__module__.rpartition('.')[0]}.figures"
        if importlib.util.find_spec(module) is None:
            return ()
        found: tuple[FigureSpec, ...] = importlib.import_module(module).ENTRIES
        return found

    def quick_jobs(self) -> dict[str, Quick]:
        """Jobs of its page that answer at once, by name; `KIND_plan` says what a run will take."""
        return {f"{self.kind}_plan": (self.config, self.plan_job)}

    def plan_job(self, config: Any, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
        """Calls, tokens and seconds of a run, its pace measured on a few of its own requests; NaN where not known.

        Raises:
            InputError: as `cost`.
        """
        checkpoint(0, 1)
        context = Context(settings)
        return self.cost(self.prepare(config, context), context)._asdict()
