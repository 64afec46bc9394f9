"""Standard vectors and the edit of an activation (CAP, paper 001, section 4.3, equations 4 and 5).

    high: s' = N(s + a (1 - cos(s, hv)) u)        low: s' = N(s - a (1 - cos(s, lv)) u)

u is the unit vector from the low to the high standard, N gives s' the length of s, a >= 0. In the paper's form the
cosine is of s itself; its activations share a large common part, so that the cosine is near 1 and the edit all but
vanishes. The centred form takes the cosine after the mean of both standards has been taken away. Everything is
computed in float32, whatever the model's precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import InputError

Floats = NDArray[np.float64]
Form = Literal["paper", "centred"]
Side = Literal["high", "low"]
SIDES: tuple[Side, ...] = ("high", "low")
LEAST_TEXTS = 8
"""Texts a side must have before a mean of their activations is called a standard."""


@dataclass(frozen=True)
class Standards:
    """The high and low standard of one layer.

    Attributes:
        layer: counted from 1.
        high, low: mean final-token activation of each side (d,).
        mean_norm: mean length of the activations they were made of.
    """

    layer: int
    high: Floats
    low: Floats
    mean_norm: float

    @property
    def direction(self) -> Floats:
        """Unit vector from low to high (d,)."""
        sv = self.high - self.low
        return sv / float(np.linalg.norm(sv))

    @property
    def centre(self) -> Floats:
        """Halfway between the standards (d,)."""
        return (self.high + self.low) / 2


def standards_of(activations: Floats, is_high: NDArray[np.bool_], layer: int) -> Standards:
    """The standards of one layer.

    Args:
        activations: (n, d) of that layer.
        is_high: True for texts of the high side, the others are of the low one (n,).
        layer: counted from 1.

    Raises:
        InputError: fewer than eight texts on a side, or two equal standards.
    """
    for name, n in (("high", int(is_high.sum())), ("low", int((~is_high).sum()))):
        if n < LEAST_TEXTS:
            raise InputError(
                f"Only {n} candidates were retained on the {name} side; at least {LEAST_TEXTS} are needed. Generate "
                "more candidates per context, use more training contexts, or move the percentiles nearer to 50."
            )
    x = np.asarray(activations, dtype=np.float64)
    high, low = x[is_high].mean(axis=0), x[~is_high].mean(axis=0)
    if not np.linalg.norm(high - low) > 0:
        raise InputError(f"The two standards of layer {layer} are equal, so there is no direction to steer in.")
    return Standards(layer, high, low, float(np.linalg.norm(x, axis=1).mean()))


@dataclass(frozen=True)
class Edit:
    """The edit of B rows of a batch at one layer.

    Attributes:
        layer: counted from 1.
        direction: unit vector (d,).
        targets: hv or lv of each row, less the centre (B, d).
        centre: taken from the activation before the cosine (d,); zero in the paper's form.
        strengths: +a for a row steered high, -a for one steered low, 0 for an unsteered one (B,).
    """

    layer: int
    direction: NDArray[np.float32]
    targets: NDArray[np.float32]
    centre: NDArray[np.float32]
    strengths: NDArray[np.float32]

    def rows(self, which: Sequence[int]) -> Edit:
        """The edit of some of the rows, in that order."""
        chosen = list(which)
        return Edit(self.layer, self.direction, self.targets[chosen], self.centre, self.strengths[chosen])


def edit_of(standards: Standards, rows: Sequence[tuple[Side, float]], form: Form = "paper") -> Edit:
    """The edit that steers each row to a side with a strength.

    Args:
        standards: of the layer to edit.
        rows: side and alpha (>= 0) of each row.
        form: `paper` takes the cosine as it is, `centred` less the mean of both standards.

    Raises:
        InputError: a negative alpha; the side already says which way.
    """
    if wrong := [alpha for _, alpha in rows if not alpha >= 0]:
        raise InputError(
            f"A steering strength of {wrong[0]:g} is not allowed; alpha is 0 or more, the side gives the sign."
        )
    centre = standards.centre if form == "centred" else np.zeros_like(standards.high)
    ends = {"high": standards.high - centre, "low": standards.low - centre}
    sign = {"high": 1.0, "low": -1.0}
    return Edit(
        standards.layer,
        standards.direction.astype(np.float32),
        np.stack([ends[side] for side, _ in rows]).astype(np.float32),
        centre.astype(np.float32),
        np.array([sign[side] * alpha for side, alpha in rows], dtype=np.float32),
    )


class Editor:
    """An edit with its vectors on a device; `apply` changes activations of the rows' last tokens."""

    def __init__(self, edit: Edit, device: str) -> None:
        import torch

        def moved(array: NDArray[np.float32]) -> Any:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        targets = moved(edit.targets)
        self.layer = edit.layer
        self._direction, self._centre = moved(edit.direction), moved(edit.centre)
        self._targets = targets / targets.norm(dim=-1, keepdim=True).clamp_min(1e-12)  # (B, d)
        self._strengths = moved(edit.strengths)[:, None]  # (B, 1)
        self._centred = bool(np.any(edit.centre))

    def apply(self, hidden: Any) -> tuple[Any, Any]:
        """Edited activations (B, d) in the dtype given, and their relative edit |s' - s| / |s| (B,) in float32."""
        s = hidden.float()
        seen = s - self._centre if self._centred else s
        size = s.norm(dim=-1, keepdim=True)
        cosine = (seen * self._targets).sum(dim=-1, keepdim=True)
        cosine = cosine / (seen.norm(dim=-1, keepdim=True).clamp_min(1e-12) if self._centred else size)
        moved = s.addcmul(self._strengths * (1 - cosine), self._direction)
        moved = moved * (size / moved.norm(dim=-1, keepdim=True))
        return moved.to(hidden.dtype), (moved - s).norm(dim=-1) / size[:, 0]


def relative_edits(
    activations: Floats, standards: Standards, side: Side, alphas: Sequence[float], form: Form
) -> Floats:
    """Mean relative edit |s' - s| / |s| of activations (n, d) at each alpha, shape (A,); no model is asked."""
    import torch

    hidden = torch.from_numpy(np.asarray(activations, dtype=np.float32))
    out = []
    for alpha in alphas:
        edit = edit_of(standards, [(side, float(alpha))] * len(hidden), form)
        out.append(float(Editor(edit, "cpu").apply(hidden)[1].double().mean()))
    return np.array(out)


def alphas_reaching(
    activations: Floats, standards: Standards, side: Side, reach: Sequence[float], form: Form
) -> list[float]:
    """The alpha at which the mean relative edit of the activations reaches each size, by bisection; 0 for size 0.

    The relative edit grows with alpha, since s' turns towards the direction; it stays below the largest turn that is
    possible, which raises.

    Raises:
        InputError: a size that no alpha reaches.
    """
    alphas: list[float] = []
    for wanted in reach:
        if wanted == 0:
            alphas.append(0.0)
            continue
        low, high = 0.0, standards.mean_norm
        while relative_edits(activations, standards, side, [high], form)[0] < wanted:
            high *= 4
            if high > 1e9 * standards.mean_norm:
                raise InputError(
                    f"No alpha gives a relative edit of {wanted:g} at layer {standards.layer}. Ask for less, or take "
                    "another layer."
                )
        for _ in range(40):
            middle = (low + high) / 2
            if relative_edits(activations, standards, side, [middle], form)[0] < wanted:
                low = middle
            else:
                high = middle
        alphas.append(float(f"{high:.4g}"))
    return alphas
