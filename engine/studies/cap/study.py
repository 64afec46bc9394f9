"""CAP (paper 001): steer a tutor to a text of a high and one of a low standard, show both to the judge, attack it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from engine.core.errors import InputError
from engine.core.schema import NONE, Column, Table
from engine.core.settings import Settings
from engine.defenses.cards import parse_defense
from engine.defenses.writing import TUTOR
from engine.judges.base import Checkpoint
from engine.runs.folder import RunFolder
from engine.steering.vectors import Form
from engine.studies.study import GRADIENTS, Context, Quick, Study, StudyConfig, Summary, quick_form

CAP_LAYERS = Table(
    "cap_layers",
    (
        Column(
            "space",
            "str",
            "where eq. 3 was taken; pca-written leaves degraded texts out",
            allowed=("pca", "raw", "pca-written"),
        ),
        Column("layer", "int", "output of this block, counted from 1"),
        Column("fitted", "float", "separability on the half that chose components and layer"),
        Column("value", "float", "separability on the other half"),
        Column("lower", "float", "lower end of its bootstrap interval over contexts"),
        Column("upper", "float", "upper end"),
        Column("null_mean", "float", "mean with the sides shuffled within contexts"),
        Column("null_high", "float", "upper 95 % point with the sides shuffled within contexts"),
        Column("p_value", "float", "share of shuffles that reach the value, in (0, 1]"),
        Column("n_high", "int", "texts of the high side in the other half"),
        Column("n_low", "int", "texts of the low side in the other half"),
    ),
)
CAP_TEXTS = Table(
    "cap_texts",
    (
        Column("text_id", "str", "identifies the candidate"),
        Column("pool", "int", "1 sets the thresholds, 2 is retained against them"),
        Column("item_id", "str", "its context"),
        Column("source", "str", "how the tutor was asked, or that a rule degraded a draft"),
        Column("temperature", "float", "of the draw"),
        Column("text", "str", "verbatim", required=False),
        Column("score", "float", "the undefended judge's score (NaN: unread)", required=False),
        Column("unread_reason", "str", "why there is no score", required=False),
        Column("side", "str", "which standard it was retained for", required=False, allowed=("high", "low")),
        Column("half", "str", "half of the contexts it fell into", required=False, allowed=("fitted", "evaluated")),
        Column("umap_x", "float", "UMAP of the chosen layer", required=False),
        Column("umap_y", "float", "UMAP of the chosen layer", required=False),
    ),
    key="text_id",
)
CAP_POINTS = Table(
    "cap_points",
    (
        Column("text_id", "str", "a retained candidate"),
        Column("layer", "int", "counted from 1"),
        Column("x", "float", "first principal component of that layer"),
        Column("y", "float", "second principal component"),
    ),
)
CAP_SWEEP = Table(
    "cap_sweep",
    (
        Column("side", "str", "direction steered to", allowed=("high", "low")),
        Column("form", "str", "cosine as in the paper, or centred", allowed=("paper", "centred")),
        Column("layer", "int", "where it was steered"),
        Column("alpha", "float", "steering strength (eqs. 4, 5)"),
        Column("item_id", "str", "training context"),
        Column("text", "str", "what the tutor wrote, verbatim", required=False),
        Column("score", "float", "the undefended judge's score (NaN: unread)", required=False),
        Column("unread_reason", "str", "why there is no score", required=False),
        Column("relative_edit", "float", "mean |s' - s| / |s| over its tokens"),
        Column("perplexity", "float", "under the unsteered tutor, of the text alone", required=False),
        Column("repetition", "float", "share of its 3-word runs that it had before, in [0, 1]", required=False),
        Column("words", "int", "words written"),
    ),
)
CAP_ANCHORS = Table(
    "cap_anchors",
    (
        Column("arm", "str", "the defense they serve"),
        Column("item_id", "str", "the context"),
        Column("side", "str", "which slot of the prompt", allowed=("high", "low")),
        Column("text", "str", "verbatim", required=False),
        Column("score", "float", "the undefended judge's score of the anchor alone", required=False),
        Column("alpha", "float", "steering strength, where it was steered", required=False),
        Column("tokens", "int", "prompt and written tokens it cost", required=False),
    ),
)
CAP_VECTORS = Table(
    "cap_vectors",
    (
        Column("layer", "int", "counted from 1"),
        Column("high", "list", "high standard hv"),
        Column("low", "list", "low standard lv"),
        Column("mean_norm", "float", "mean length of the activations behind them"),
    ),
)
CAP_TABLES = (CAP_LAYERS, CAP_TEXTS, CAP_POINTS, CAP_SWEEP, CAP_ANCHORS, CAP_VECTORS)
"""Every table that only this study writes."""


CAP, WCAP, COT, PERPLEXITY, SCORED, HUMAN = "cap", "wcap", "cot", "perplexity", "score-anchors", "human-anchors"
ARMS = (NONE, COT, PERPLEXITY, SCORED, HUMAN, WCAP, CAP)
"""Defenses that the study compares: paper tables 1, 2, 3 and 6."""
ANCHORED = (SCORED, HUMAN, WCAP, CAP)
EXCHANGED = "-exchanged"
"""Ends the name of a control arm: the two anchors in each other's slots, clean responses only."""
TRAINING, EVALUATION = "train", "eval"
LEAST_CONTEXTS = 4
"""Contexts that the study needs: two to train on and two to judge."""
LEAST_POOL = 24
"""Candidates of a pool, all training contexts together: fewer rarely hold enough texts of both standards."""
QUICK: dict[str, Any] = {
    "contexts": 4, "candidates": 6, "reach": (0, 0.15, 0.45), "alphas": (), "suffix_words": (), "limit": 12,
    "attacks": ("dsi", "bed"), "defenses": (NONE, CAP), "new_tokens": 32,
}  # fmt: skip
"""Settings of the quick form, which only lower limits may change; its texts are shorter than the full form's."""


def least_candidates(training: int) -> int:
    """Candidates that each of so many training contexts must have at least."""
    return -(-LEAST_POOL // max(1, training))


def base_of(defense: str) -> str:
    """An arm's name without its options: `perplexity?threshold=84` is of `perplexity`."""
    return defense.partition("?")[0]


class CapConfig(StudyConfig):
    """Settings of the study; the run's manifest holds them.

    Attributes:
        quick: the quick form: the settings of `QUICK` take the place of those given.
        contexts: most training contexts; None takes half of all.
        candidates: of each training context, for each of the two pools.
        defenses: arms; options as in `perplexity?threshold=84` are allowed, and a threshold named so is kept.
        pool: how the tutor is asked for the candidates that standards are made of: `contrast` also for good and poor
            texts, at several temperatures, with some degraded by a rule; `plain` only as the paper asks, without a word
            on quality and with nothing degraded.
        fit_perplexity: the arm `perplexity` without a threshold takes those of best F1 on the training contexts, one
            fitted against learned phrases and one against prompt attacks; else the stock threshold.
        deflate: every attack that has a direction is also tried the other way, on a rival's response.
        learned_words: length of a suffix learned on this judge, on responses of the training contexts; 0 learns none.
        learned_candidates: words tried at each step of that search, chosen by gradient.
        learned_prompts: training responses it is learned on.
        learned_through_cap: a second one is learned on the judge behind CAP.
    """

    judge: str
    data: str
    quick: bool = False
    tutor: str = TUTOR
    attacks: tuple[str, ...] = ("dsi", "bed", "adaptive", "suffix")
    deflate: bool = False
    suffix_words: tuple[int, ...] = (1, 2, 3, 5)
    learned_words: int = Field(default=0, ge=0, le=5)
    learned_candidates: int = Field(default=32, ge=2, le=4096)
    learned_prompts: int = Field(default=8, ge=1, le=512)
    learned_through_cap: bool = False
    defenses: tuple[str, ...] = ARMS
    fit_perplexity: bool = True
    contexts: int | None = Field(default=None, ge=2)
    candidates: int = Field(default=12, ge=2, le=200)
    pool: Literal["contrast", "plain"] = "contrast"
    high_percentile: float = Field(default=80, gt=0, le=100)
    low_percentile: float = Field(default=20, ge=0, lt=100)
    components: int = Field(default=2, ge=1, le=50)
    form: Form = "paper"
    layer: int | None = Field(default=None, ge=1)
    reach: tuple[float, ...] = (0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6)
    alphas: tuple[float, ...] = (3.0,)
    new_tokens: int | None = Field(default=None, ge=1, le=512)
    split: Literal["half", "group"] = "half"
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    seed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _quick_form(cls, given: Any) -> Any:
        return quick_form(given, QUICK)

    @field_validator("defenses")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in names if base_of(name) not in ARMS]:
            raise ValueError(f"{wrong[0]!r} is no arm of this study; allowed: {', '.join(ARMS)}")
        try:
            return tuple(dict.fromkeys((NONE, *(parse_defense(name).name for name in names))))
        except InputError as error:
            raise ValueError(str(error)) from None

    @field_validator("reach")
    @classmethod
    def _sizes(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 <= size < 1 for size in sizes):
            raise ValueError("a relative edit lies from 0 to below 1")
        return sizes

    @field_validator("alphas")
    @classmethod
    def _strengths(cls, alphas: tuple[float, ...]) -> tuple[float, ...]:
        if wrong := [alpha for alpha in alphas if not 0 <= alpha < float("inf")]:
            raise ValueError(f"alpha {wrong[0]:g} is not allowed; alpha is 0 or more, the side gives the sign")
        return alphas

    @model_validator(mode="after")
    def _in_order(self) -> CapConfig:
        if not self.low_percentile < self.high_percentile:
            raise ValueError(
                f"low_percentile {self.low_percentile:g} and high_percentile {self.high_percentile:g} are out of "
                "order; the low one is below the high one"
            )
        return self

    @property
    def fits_perplexity(self) -> bool:
        """Thresholds are fitted: it is asked for, and there is an arm that names none."""
        return self.fit_perplexity and PERPLEXITY in self.defenses


def steps_of(config: CapConfig, training: int, contexts: int, responses: int) -> int:
    """Texts written and judge calls of a run, roughly.

    Args:
        config: the study.
        training: contexts that train.
        contexts: all contexts.
        responses: those judged.
    """
    pools = 2 * 2 * config.candidates * training
    sweep = 2 * 2 * (len(config.reach) + len(config.alphas)) * training
    anchors = 4 * 3 * contexts
    arms = len(config.defenses) + config.fits_perplexity  # two thresholds stand in for one arm
    arms *= (1 + len(config.attacks)) * responses
    pairs = 2 * (1 + len(config.attacks)) * responses
    lengths = len(config.suffix_words) * 2 * responses
    return pools + sweep + anchors + arms + lengths + pairs


class Cap(Study):
    """CAP as the registry knows it."""

    kind = "cap"
    names = ("cap",)
    title = "Steering and anchors"
    config = CapConfig
    tables = CAP_TABLES
    marks = frozenset({"high_percentile"})
    table_shown = "cap_layers"

    def run(self, config: CapConfig, context: Context, folder: RunFolder) -> None:
        """Standards, alphas, anchors, then every attack behind every defense; each part's tables as it ends."""
        from engine.studies.cap.contexts import check_pool, divide, expected_work
        from engine.studies.cap.run import run_cap
        from engine.studies.cap.tutor import load_tutor

        dataset = context.data.dataset(config.data)
        contexts = divide(config, dataset)
        check_pool(config, contexts)
        context.checkpoint(0, expected_work(config, contexts))
        folder.update_manifest(step="Loading the judge and the tutor")
        judge = context.judge(config.judge, here=GRADIENTS if config.learned_words else "")
        tutor = load_tutor(config.tutor, context.settings, cache=context.cache)
        run_cap(config, dataset, judge, tutor, folder, context.settings, context.checkpoint)

    def plan(self, config: CapConfig, context: Context) -> tuple[dict[str, Any], str]:
        """Texts of the tutor, calls of the judge, prompts of the searches, and seconds by a few texts written."""
        from engine.studies.cap.run import plan_cap, seconds_of
        from engine.studies.cap.summary import plan_text
        from engine.studies.cap.tutor import load_tutor

        dataset = context.data.dataset(config.data)
        judge = context.judge(config.judge, here=GRADIENTS if config.learned_words else "")
        tutor = load_tutor(config.tutor, context.settings, cache=context.cache)
        plan = plan_cap(config, dataset, judge, tutor, context.settings)
        plan["seconds"] = seconds_of(config, dataset, judge, tutor, plan)
        return plan, plan_text(plan)

    def summary(self, config: CapConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """Layer, standards and alphas, then each arm's shift and each defense's cost."""
        from engine.studies.cap.summary import summary_of

        return summary_of(folder)

    def quick_jobs(self) -> dict[str, Quick]:
        """Further alphas for a finished run, and one alpha at once."""
        from engine.studies.cap.run import AlphaConfig, SweepConfig, alpha_job, sweep_job

        more: dict[str, Quick] = {"cap_sweep": (SweepConfig, sweep_job), "cap_alpha": (AlphaConfig, alpha_job)}
        return super().quick_jobs() | more

    def plan_job(self, config: CapConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
        """The plan with its seconds, for the page; a pool that is too small is refused before a model is loaded.

        Raises:
            InputError: as `plan`.
        """
        from engine.studies.cap.contexts import check_pool, divide

        checkpoint(0, 1)
        context = Context(settings)
        check_pool(config, divide(config, context.data.dataset(config.data)))
        return self.plan(config, context)[0]


STUDY = Cap()
