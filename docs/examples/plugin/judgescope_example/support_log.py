"""The format `support_log`: records with a ticket, a customer's message, an agent's reply and its name."""

from __future__ import annotations

from engine.core.schema import Task
from engine.data.formats.base import Builder, Format, Source


def read(source: Source, builder: Builder) -> None:
    """A response for each record; a record that lacks a text is left out, with its row and the reason."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            ticket, agent = record.needed("ticket"), record.needed("agent")
            item = {"item_id": ticket, "context": record.needed("message"), "group": record.get("topic") or None}
            response = {"response_id": f"{ticket}:{agent}", "item_id": ticket, "system": agent,
                        "text": record.text("reply")}  # fmt: skip
            builder.add(record, [item], [response])


SUPPORT_LOG = Format(
    "support_log",
    "Support log",
    "Replies of agents to customers' messages.",
    (("ticket", "message", "agent", "reply"),),
    read,
    Task.DIALOGUE.value,
    telling=("ticket", "message", "agent", "reply", "topic"),
)
