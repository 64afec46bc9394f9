"""Audits as their page reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from dashboard.run_view import RunView, Stored
from engine.studies.transport_audit import figures
from engine.studies.transport_audit.drawings import choices
from engine.studies.transport_audit.metrics import Audit


class AuditRun(RunView):
    """A finished audit."""

    kind = "transport_audit"
    rows = Stored("audit")
    metrics = Stored("metrics")
    verdicts = Stored("verdicts")
    variants = Stored("variants")

    @cached_property
    def labelled(self) -> bool:
        """False where too few pairs have a person's choice and a verdict, so that there is nothing to transport."""
        return figures.labelled(self.source)

    @cached_property
    def audits(self) -> dict[str, Audit]:
        """By attack, the clean arm first; empty where there is nothing to transport."""
        if not self.labelled:
            return {}
        return {attack: figures.audit(self.source, attack) for attack in figures.attacks(self.source)}

    @cached_property
    def kept_choices(self) -> tuple[int, int] | None:
        """Pairs on which the judge chooses the same response in both orders, of all; None where it saw one order."""
        if self.verdicts["order"].nunique() < 2:
            return None
        both = choices(self.verdicts)
        return int((both["choice"] == "same").sum()), len(both)

    def attacked_text(self, attack: str, response_ids: Sequence[str]) -> str:
        """The rewritten losing response of a pair; empty where the attack rewrites nothing."""
        table = self.variants
        texts = table.loc[(table["style"] == attack) & table["response_id"].isin(list(response_ids)), "text"]
        return str(texts.iloc[0]) if len(texts) else ""
