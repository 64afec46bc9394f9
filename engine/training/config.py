"""The recipe of an adapter as a frozen value, read from a TOML file (`assets/training/judge.toml`)."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import InputError
from engine.core.json import read_toml
from engine.training.heldout import Side


class TrainingConfig(BaseModel):
    """Everything that decides an adapter, besides the data, the base model and the machine's arithmetic.

    Attributes:
        seeds: the adapters to train; the first one ships.
        data_seed: of the examples, so that all seeds see the same ones in another order.
        sides: of the data to train on; the test side is refused.
        mix: number of passes each pool of examples gets; a fraction takes that share of one pass.
        rank, alpha: of the LoRA on all linear layers.
        batch: prompts a step. micro_tokens: most padded tokens in one forward pass.
        learning_rate: peak, reached after the share `warmup` of the steps, then a cosine to zero.
        consistency: weight of the term that pulls the two orders of a pair together.
        max_tokens: longer prompts are left out and counted.
        checkpoint_seconds: time between checkpoints.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seeds: tuple[int, ...] = Field(min_length=1)
    data_seed: int = 0
    sides: tuple[Side, ...] = (Side.TRAIN,)
    mix: dict[str, float]
    rank: int = Field(16, ge=1, le=64)
    alpha: int = Field(32, ge=1)
    batch: int = Field(32, ge=1)
    micro_tokens: int = Field(16_384, ge=256)
    learning_rate: float = Field(6e-4, gt=0)
    warmup: float = Field(0.04, ge=0, lt=1)
    clip: float = Field(1.0, gt=0)
    consistency: float = Field(0.5, ge=0)
    max_tokens: int = Field(1400, ge=64)
    checkpoint_seconds: float = Field(60.0, gt=0)


def read_config(path: Path) -> TrainingConfig:
    """Read and check a recipe.

    Raises:
        InputError: unreadable, not TOML, a field is wrong, or the test side is among the sides.
    """
    try:
        config = TrainingConfig.model_validate(read_toml(path.read_bytes()))
    except OSError as error:
        raise InputError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"The recipe {path.name} is not valid TOML: {error}.") from None
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise InputError(f"The recipe {path.name} is wrong. {wrong}.") from None
    if Side.TEST in config.sides:
        raise InputError(f"The recipe {path.name} trains on the test side; only train and tune may be trained on.")
    return config
