"""Claims: what the four papers say, frozen as data, and decided from the runs of the other studies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from engine.core.errors import listed
from engine.runs.folder import RunFolder
from engine.studies.claims.tables import CANNOT_TELL, CLAIMS
from engine.studies.study import Context, Study, Summary

if TYPE_CHECKING:
    from engine.studies.figure import FigureSpec

RECORDED = "recorded:"
Where = dict[str, str | bool]
"""Column to value of a row; values may hold *. `last` takes the last of several, `run` and `judge` name another run."""


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Changed(_Frozen):
    """A change after the freeze."""

    date: str
    claim: str = ""
    what: str
    reason: str


class SetOfData(_Frozen):
    """A data set that claims are about.

    Attributes:
        about: what is measured on, in words.
        demo: id of the bundled data that stand in for it where somebody has none of the public sets; one for each
            kind of data where a study takes responses and another comparisons.
        recorded: id of the bundled recordings of judges on this set.
    """

    about: str
    demo: str | dict[str, str] = ""
    recorded: str = ""


class SubRun(_Frozen):
    """A run of another study.

    Attributes:
        study: its name.
        settings: of that study.
        on: further settings on single data sets.
        demo: further settings on bundled data.
    """

    study: str
    settings: dict[str, Any] = {}
    on: dict[str, dict[str, Any]] = {}
    demo: dict[str, Any] = {}


class Claim(_Frozen):
    """One claim as frozen; the comments of `assets/studies/claims.toml` explain each key.

    Attributes:
        published: the paper's figure, and `place` where it stands there.
        judges: what can be asked: `scorer`, `pairwise`, `live-pairwise`, `verifier`, `none`.
        null: value of the estimand where there is no effect.
        least: least relevant effect; the margin of a non-inferiority test.
        stated: published effect less `null`, for all sets or each.
        items, power: planned, by set.
        by_construction: for all judges, or for those named.
        requires: id of a claim without which this one says nothing.
        run: name of its run in `runs`; `read` the row of `table` that is the value.
        less, over: rows that are taken off, or that the value is a share of.
        complement: one less the value. sign: -1 turns it round.
        pick: of several rows the one with the largest value of this column.
        minus: a column of the row that is taken off its value.
        trend: two columns; the value is their mean Spearman correlation within items.
        recorded: run and row where the judge is a recording.
        only_if: a row whose whole interval must lie above `above`; the claim is about no other judge.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    paper: str
    statement: str
    published: str
    place: str
    estimand: str
    unit: str
    data: tuple[str, ...] = Field(min_length=1)
    judges: Literal["scorer", "pairwise", "live-pairwise", "verifier", "none"]
    test: Literal["superiority", "non-inferiority"]
    null: float = 0.0
    least: float = Field(gt=0)
    stated: float | dict[str, float] | None = None
    items: dict[str, int] = {}
    power: dict[str, float] = {}
    by_construction: bool | tuple[str, ...] = ()
    requires: str = ""
    run: str
    table: str = "metrics"
    read: Where
    less: Where | None = None
    over: Where | None = None
    complement: bool = False
    sign: Literal[1, -1] = 1
    pick: str = ""
    minus: str = ""
    trend: tuple[str, str] | None = None
    recorded: dict[str, str | bool] | None = None
    only_if: Where | None = None
    above: float = 0.0

    def stated_on(self, name: str) -> float:
        """The published effect on a set; NaN for a non-inferiority test.

        Raises:
            KeyError: the claim states none for it.
        """
        if self.stated is None:
            return float("nan")
        return self.stated[name] if isinstance(self.stated, dict) else self.stated

    def constructed(self, judge: str) -> bool:
        """True where this judge shows the effect because it was made or chosen to."""
        if isinstance(self.by_construction, bool):
            return self.by_construction
        return judge in self.by_construction


class ClaimsConfig(_Frozen):
    """Settings of a run; the frozen claims are among them, so that the manifest says what was decided.

    Attributes:
        judge: whose claims are decided.
        data: set to the id of its data, or to one id for each kind (`responses`, `comparisons`); empty takes the
            bundled demo sets, whose rows are no results of the claims.
        settings: further settings by run, for what the frozen ones leave open, such as a pool of references.
        claims: ids of those wanted; empty for all. What one requires is decided, too.
        papers: only the claims of these papers; empty for all.
        source: folder with finished runs that are read in place of new ones, where they have the same settings.
        limit: passed on to every study that has such a setting, for a try.
        frozen, changes, planned_judges: when it was frozen and what was changed since.
        sets, runs, claim: data sets, runs and claims by name.
    """

    judge: str
    data: dict[str, str | dict[str, str]] = {}
    settings: dict[str, dict[str, Any]] = {}
    claims: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()
    source: str = ""
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)
    frozen: str
    changes: tuple[Changed, ...] = ()
    planned_judges: tuple[str, ...] = ()
    sets: dict[str, SetOfData]
    runs: dict[str, SubRun]
    claim: tuple[Claim, ...]

    @field_validator("data", mode="before")
    @classmethod
    def _by_set(cls, given: Any) -> Any:
        if isinstance(given, str):
            raise ValueError(
                "name the data of each set, as in --set 'data={topicalchat = \"ID\"}'; the public sets are read from a "
                "folder by judgescope bench claims --data DIR --out DIR"
            )
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        known = {one.id for one in self.claim}
        _among(self.claims, known, "claim")
        _among(self.papers, {one.paper for one in self.claim}, "paper")
        _among(self.data, self.sets, "set")
        _among(self.settings, self.runs, "run")
        for name, given in self.settings.items():
            if frozen := sorted(set(given) & set(self.runs[name].settings)):
                raise ValueError(f"the setting {frozen[0]} of the run {name} is frozen; leave it out")
        for one in self.claim:
            _among(one.data, self.sets, "set")
            other = [str(row["run"]) for row in (one.less, one.over, one.recorded) if row and "run" in row]
            _among([one.run, *other], self.runs, "run")
            _among([one.requires] if one.requires else [], known, "claim")
            for name in one.data:
                if one.test == "superiority" and not _states(one, name):
                    raise ValueError(f"the claim {one.id} states no effect on {name}")
        return self

    @property
    def wanted(self) -> tuple[Claim, ...]:
        """The claims to decide, with those that they require, in the file's order."""
        by_id = {one.id: one for one in self.claim}
        chosen = {one.id for one in self.claim if not self.claims or one.id in self.claims}
        chosen = {i for i in chosen if not self.papers or by_id[i].paper in self.papers}
        chosen |= {by_id[i].requires for i in chosen} - {""}
        return tuple(one for one in self.claim if one.id in chosen)

    @property
    def shipped(self) -> str:
        """The id of the bundled recordings that the judge names, where no other data are named; else empty."""
        named = self.judge.removeprefix(RECORDED).partition("?")[0] if self.judge.startswith(RECORDED) else ""
        return named if not self.data and named in {about.recorded for about in self.sets.values()} else ""

    def data_of(self, claim: Claim, inputs: str) -> dict[str, str]:
        """The sets this claim is decided on and their data; the demo sets, each once, where none were named.

        Args:
            claim: one of them.
            inputs: kind of data of the study it reads: `responses` or `comparisons`.
        """
        if shipped := self.shipped:
            return {name: shipped for name in claim.data if self.sets[name].recorded == shipped}
        given = self.data or {name: about.demo for name, about in self.sets.items()}
        found: dict[str, str] = {}
        for name in claim.data:
            held = given.get(name, "")
            own = held.get(inputs, "") if isinstance(held, dict) else held
            if own and (self.data or own not in found.values()):
                found[name] = own
        return found


def _states(one: Claim, name: str) -> bool:
    return isinstance(one.stated, float | int) or (isinstance(one.stated, dict) and name in one.stated)


def _among(given: Any, known: Any, what: str) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; allowed: {listed(sorted(known))}")


class Claims(Study):
    """The study of claims as the registry knows it."""

    kind = "claims"
    names = ("claims",)
    title = "Claims"
    config = ClaimsConfig
    tables = (CLAIMS,)
    marks = frozenset({"planned_judges"})
    free = frozenset({"source"})
    table_shown = "claims"

    def prepare(self, config: ClaimsConfig, context: Context) -> ClaimsConfig:  # noqa: ARG002 - a hook
        """As it is: every run opens its own data."""
        return config

    def run(self, config: ClaimsConfig, context: Context, folder: RunFolder) -> None:
        """Run what the claims read, as far as it is not there; decide them after each."""
        from engine.studies.claims.run import run_claims

        run_claims(config, context, folder)

    def plan(self, config: ClaimsConfig, context: Context) -> tuple[dict[str, Any], str]:
        """The cost of every run that the claims read."""
        from engine.studies.claims.run import plan_claims

        return plan_claims(config, context)

    def summary(self, config: ClaimsConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the table says it all
        """A line for each claim and set; the JSON object's `claims` has the same."""
        table = folder.table("claims")
        lines = [_line(row) for row in table.to_dict("records")]
        counts = table["verdict"].value_counts()
        lines.append(", ".join(f"{verdict}: {n}" for verdict, n in counts.items()) or "No claim fits this judge.")
        return Summary(
            "\n".join(lines), {"claims": _records(table), "counts": {str(k): int(v) for k, v in counts.items()}}
        )

    def figures(self) -> tuple[FigureSpec, ...]:
        """A forest for each paper."""
        from engine.studies.claims.figures import ENTRIES

        return ENTRIES


def _line(row: dict[Any, Any]) -> str:
    ends = "" if row["value"] != row["value"] else f" {row['value']:+.3f} [{row['lower']:+.3f}, {row['upper']:+.3f}]"
    why = f" ({row['reason']})" if row["verdict"] == CANNOT_TELL and isinstance(row["reason"], str) else ""
    return f"{row['claim']:<22} {row['set']:<17} {row['verdict']}{ends}{why}"


def _records(table: Any) -> list[dict[str, Any]]:
    rows = table.rename(columns={"claim": "id"}).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]


STUDY = Claims()
