"""Transport audit (PUAudit, paper 002): verdicts unlike verified human preferences, found and flipped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from engine.attacks.audit_styles import AUDIT_ATTACKS, EMOTIONS
from engine.core.errors import InputError
from engine.core.files import read_file
from engine.core.schema import NONE, Column, Table
from engine.judges.base import Judge
from engine.runs.folder import RunFolder
from engine.studies.study import Context, Quick, Study, StudyConfig, Summary, quick_form
from engine.transport.encoders import encoder_spec

if TYPE_CHECKING:
    from engine.studies.running import Plan

AUDIT = Table(
    "audit",
    (
        Column("split", "int", "-1: every labelled pair is a positive; from 0: seeded split of the labelled pairs"),
        Column("attack", "str", "attack on the losing response, or none"),
        Column("part", "str", "question type that has a transport of its own; missing where all share one", False),
        Column("comparison_id", "str", "the pair"),
        Column("item_id", "str", "the item both answer"),
        Column("type", "str", "question type"),
        Column("role", "str", "side of the transport", True, ("positive", "denoised", "unlabelled")),
        Column("place", "int", "place among the positives that stayed, or among the unlabelled; -1: denoised away"),
        Column("verdict", "str", "side the judge prefers; of an unlabelled pair, under the attack", False, ("a", "b")),
        Column("human", "str", "human preference; of an unlabelled pair, hidden from the audit", False, ("a", "b")),
        Column("agrees_clean", "float", "1 where the clean verdict is the human's, else 0 (NaN: unknown)", False),
        Column("agrees", "float", "the same of the verdict under this attack", False),
        Column("entry_mass", "float", "transported mass at which the pair enters, in [0, 1]", False),
        Column("entry_price", "float", "cost of a unit of mass there, 1 - cos", False),
        Column("centroid", "float", "cosine to the mean positive, in [-1, 1]", False),
        Column("nearest", "float", "cosine to the nearest positive, in [-1, 1]", False),
        Column("top10", "float", "mean cosine to the ten nearest positives, in [-1, 1]", False),
        Column("pca_x", "float", "first principal component of the difference embeddings", False),
        Column("pca_y", "float", "second principal component", False),
        Column("umap_x", "float", "UMAP of the difference embeddings, first axis", False),
        Column("umap_y", "float", "UMAP, second axis", False),
        Column("resampled", "list", "entry mass under each bootstrap of the positives", False),
    ),
)

TRANSPORT = Table(
    "transport",
    (
        Column("split", "int", "as in the table audit"),
        Column("attack", "str", "as in the table audit"),
        Column("part", "str", "as in the table audit", False),
        Column("sent", "int", "units of mass moved after this event; all are lcm(n_P, n_U)"),
        Column("unlabelled", "int", "place of the unlabelled pair it adds to"),
        Column("positive", "int", "place of the positive it draws from"),
        Column("price", "float", "cost of a unit of its mass, never falling"),
    ),
)

QUICK_PAIRS = 60
"""Pairs of a quick audit at most."""
QUICK: dict[str, Any] = {"umap": False, "p_ratios": (), "bootstraps": 5, "splits": 5}
"""Settings of a quick audit; besides, one encoder, one attack and `QUICK_PAIRS` pairs at most."""
IN_DATA = "recorded:data"
"""The judge whose verdicts came with the pairs (columns verdict and verdict_ba)."""


class AuditConfig(StudyConfig):
    """Settings of an audit; the run's manifest holds them.

    Attributes:
        judge: a judge's spec, `recorded:FILE...`, or `recorded:data` for verdicts that came with the pairs.
        data: id of a set of pairs.
        attacks: on the losing response; the clean arm is always there.
        encoders: specs or short names; the first is the audit's, all are compared on the clean arm.
        mass: transported mass in (0, 1]; None takes the consistency on the positives (paper 002, 5.1).
        eta: least share of its weight that a pair must have transported to be kept, in (0, 1].
        alpha1, alpha2: shares of the positives kept by each denoising stage, in (0, 1].
        pool_below: question types with fewer positives are denoised together; 0 pools none.
        p_ratio: share of labelled pairs that are positives in the seeded splits.
        p_ratios: further shares, on the clean arm, for the sensitivity (paper 002, table 6).
        splits: seeded divisions of the labelled pairs.
        bootstraps: of the positives, for the stability of each pair.
        rewriter: `rules`, or the spec of a model.
        classify: spec of a model, here or behind an API, that sorts the questions into the paper's types A to F; empty
            keeps the file's types.
        within_type: each question type has a transport and an estimated mass of its own.
        weights: `items` also audits with every item weighing the same (rows cons_adj_items and gain_items, clean arm).
        min_cell: pairs below which a question type takes no part in claims.
        quick: the settings of `QUICK` in place of those given, for a first answer within two minutes on two cores.
    """

    judge: str = "bundled:judge"
    data: str
    attacks: tuple[str, ...] = ()
    encoders: tuple[str, ...] = Field(default=("bundled:judge",), min_length=1)
    mass: float | None = Field(default=None, gt=0, le=1)
    eta: float = Field(default=0.5, gt=0, le=1)
    alpha1: float = Field(default=0.7, gt=0, le=1)
    alpha2: float = Field(default=0.7, gt=0, le=1)
    pool_below: int = Field(default=0, ge=0)
    within_type: bool = False
    weights: Literal["pairs", "items"] = "pairs"
    p_ratio: float = Field(default=0.5, gt=0, lt=1)
    p_ratios: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.8)
    splits: int = Field(default=10, ge=1, le=100)
    bootstraps: int = Field(default=20, ge=0, le=200)
    umap: bool = True
    rewriter: str = "rules"
    emotion: str = "cheerful"
    classify: str = ""
    min_cell: int = Field(default=10, ge=1)
    quick: bool = False
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    seed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        """A quick audit holds the settings it really ran with."""
        held = given if isinstance(given, dict) else {}
        first = {name: tuple(held[name])[:1] for name in ("encoders", "attacks") if held.get(name)}
        return quick_form(given, {**QUICK, "limit": QUICK_PAIRS, **first})

    @field_validator("attacks")
    @classmethod
    def _known(cls, attacks: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [a for a in attacks if a not in AUDIT_ATTACKS and a != NONE]
        if wrong:
            raise ValueError(f"unknown attack {wrong[0]!r}; allowed: {', '.join(AUDIT_ATTACKS)}")
        return tuple(dict.fromkeys(a for a in attacks if a != NONE))

    @field_validator("encoders")
    @classmethod
    def _named(cls, encoders: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(encoder_spec(given) for given in encoders))
        except InputError as error:
            raise ValueError(str(error)) from None

    @field_validator("emotion")
    @classmethod
    def _felt(cls, emotion: str) -> str:
        if emotion not in EMOTIONS:
            raise ValueError(f"unknown emotion {emotion!r}; allowed: {', '.join(EMOTIONS)}")
        return emotion


class TransportAudit(Study):
    """The transport audit as the registry knows it."""

    kind = "transport_audit"
    names = ("puaudit", "transport_audit")
    title = "Transport audit"
    config = AuditConfig
    tables = (AUDIT, TRANSPORT)
    marks = frozenset({"p_ratio"})
    shown_when_done = True
    inputs = "comparisons"
    options = frozenset({"embeddings", "encoder"})

    def prepare(self, config: AuditConfig, context: Context) -> AuditConfig:
        """The settings with their pairs named by id, and a file of embeddings as the first encoder.

        Raises:
            InputError: the pairs or the embeddings cannot be used.
        """
        given = context.extra.get("embeddings")
        config = super().prepare(config, context)
        if given is None:
            return config
        others = config.encoders if context.extra.get("encoder") else ()
        return config.model_copy(update={"encoders": (_saved_embeddings(given, config.data, context), *others)})

    def run(self, config: AuditConfig, context: Context, folder: RunFolder) -> None:
        """Judge, attack, encode, transport, measure."""
        from engine.studies.transport_audit.run import run_transport_audit

        pairs = context.data.comparisons(config.data)
        run_transport_audit(config, pairs, _judge(config, context), folder, context.settings, context.checkpoint)

    def plan(self, config: AuditConfig, context: Context) -> tuple[dict[str, Any], str]:
        """Calls of the clean arm; attacked texts are known only once its verdicts are."""
        from engine.studies.transport_audit.summary import plan_of

        return plan_of(config, context.data.comparisons(config.data), _judge(config, context))

    def cost(self, config: AuditConfig, context: Context) -> Plan:
        """Calls, tokens and seconds of all arms, the attacked ones taken like the clean one."""
        from engine.studies.transport_audit.summary import cost_of

        return cost_of(config, context.data.comparisons(config.data), _judge(config, context))

    def summary(self, config: AuditConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the manifest says it all
        """Consistency before and after, beside the controls."""
        from engine.studies.transport_audit.summary import summary_of

        return summary_of(folder)

    def quick_jobs(self) -> dict[str, Quick]:
        """An audit of planted directions."""
        from engine.studies.transport_audit.run import PlantedAudit, planted_audit

        return super().quick_jobs() | {"planted_audit": (PlantedAudit, planted_audit)}


def _judge(config: AuditConfig, context: Context) -> Judge | None:
    """The judge; None where the verdicts came with the pairs."""
    return None if config.judge == IN_DATA else context.judge(config.judge)


def _saved_embeddings(path: Path, data: str, context: Context) -> str:
    """The spec of a file's embeddings, matched to the pairs and saved; how they were read goes to stderr."""
    from engine.data.embeddings import MAX_NPY, read_embeddings, save_embeddings

    read = read_embeddings(path.name, read_file(path, MAX_NPY), context.data.comparisons(data))
    print(f"{path.name}: {read.counts()}", file=sys.stderr)
    return save_embeddings(read, context.settings.embeddings)


STUDY = TransportAudit()
