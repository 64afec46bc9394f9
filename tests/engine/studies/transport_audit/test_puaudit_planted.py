"""Planted audits against theorem 4.3 of paper 002: the best mass is the share of right verdicts, and all are found."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from engine.core.json import dumps
from engine.core.settings import get_settings
from engine.judges.base import no_checkpoint
from engine.studies.transport_audit.metrics import consistency, planted, sensitivity
from engine.studies.transport_audit.run import PlantedAudit, planted_audit


def made(**settings):
    found = planted_audit(PlantedAudit(**settings), get_settings(), no_checkpoint)
    dumps(found)  # crosses a process border as strict JSON
    return planted(found, PlantedAudit(**settings).alpha), found


def value(table, metric):
    return float(table[table["metric"] == metric]["value"].iloc[0])


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
def test_where_the_assumptions_hold_the_best_mass_is_alpha_and_every_verdict_comes_out_right(alpha):
    audit, found = made(alpha=alpha)
    assert found["assumption"] is True
    assert np.mean(found["truth"]) == pytest.approx(alpha, abs=1e-9)
    at = consistency(audit, alpha)
    assert value(at, "cons_orig") == pytest.approx(alpha)
    assert value(at, "cons_adj") == pytest.approx(1.0)
    assert value(at, "cons_random") == pytest.approx(alpha**2 + (1 - alpha) ** 2, abs=0.01)
    curve = sensitivity(audit, [m / 100 for m in range(5, 101, 5)]).set_index("group")["value"]
    assert float(curve.idxmax()) == pytest.approx(alpha)


@pytest.mark.parametrize("departure", [{"contrary": 0.3}, {"mislabelled": 0.3}], ids=["another kind", "wrong labels"])
def test_a_good_judge_is_made_worse_where_they_do_not(departure):
    audit, found = made(alpha=0.9, **departure)
    assert found["assumption"] is False
    table = consistency(audit, 0.9)
    gain = table[table["metric"] == "gain"].iloc[0]
    assert gain["upper"] < 0


def test_an_audit_at_mass_one_changes_nothing():
    audit, _ = made(alpha=0.7, contrary=0.5)
    assert value(consistency(audit, 1.0), "gain") == 0


def test_a_geometry_that_is_none_is_refused():
    for wrong in ({"alpha": 1.1}, {"tau": 1.0}, {"mislabelled": 1.0}, {"positives": 1}):
        with pytest.raises(ValidationError):
            PlantedAudit(**wrong)
