"""The fields of a judge card and the card they make; no field is sent anywhere before the card is tried or saved."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from dashboard import state, ui
from dashboard.pages.data.columns import TASKS
from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.core.schema import Protocol, Task

NAME, MODEL, PROTOCOL, TASK_LIST, MODE = "card_name", "card_model", "card_protocol", "card_tasks", "card_mode"
LABELS, SYSTEM, USER, REMARK = "card_labels", "card_system", "card_user", "card_remark"
PATH, DECIMALS, NEW_TOKENS, CHAT = "card_path", "card_decimals", "card_new_tokens", "card_chat"
VARIANT = "card_variant"
SOURCE = "card_source"
PROTOCOLS = {
    Protocol.POINTWISE.value: "A score for one response",
    Protocol.PAIRWISE.value: "The better of two responses",
    Protocol.VERIFIER.value: "Does it match the reference? (verifier)",
}
MODES = {
    "label probabilities": "Token probabilities of the labels",
    "text": "The text it writes",
    "json": "One value of the JSON it writes",
}
_LABEL_HELP = (
    "One answer a line, in the order of the scale; = and the number it stands for; other spellings after |. "
    "For a pair: first shown, second shown, tie. For a verifier: yes, then no."
)
_FAR = 400


@dataclass(frozen=True)
class Draft:
    """A card as the fields hold it now.

    Attributes:
        card: the card, or None while it cannot be one.
        model: spec of the model it is asked of.
        error: why it cannot be one.
        notices: cautions about the card.
    """

    card: catalog.Card | None
    model: str
    error: str
    notices: list[catalog.Notice]

    @property
    def usable(self) -> bool:
        """True where it may be tried and saved."""
        return self.card is not None and not any(notice.error for notice in self.notices)


def fill_fields(card: catalog.Card, *, name: str = "") -> None:
    """Put a card into the fields; called from a callback, or before they are drawn."""
    models = list(catalog.card_models())
    values = card.values or (None,) * len(card.labels)
    spellings = card.spellings or ((),) * len(card.labels)
    lines = [
        " | ".join((label, *more)) + ("" if value is None else f" = {value:g}")
        for label, more, value in zip(card.labels, spellings, values, strict=True)
    ]
    for key, value in {
        NAME: name,
        MODEL: card.spec if card.spec in models else models[0],
        PROTOCOL: card.protocol.value if card.protocol.value in PROTOCOLS else Protocol.POINTWISE.value,
        TASK_LIST: [task.value for task in card.tasks],
        MODE: card.mode,
        LABELS: "\n".join(lines),
        SYSTEM: card.system,
        USER: card.user.removeprefix("\n"),
        REMARK: card.remark,
        PATH: card.path,
        DECIMALS: card.decimals,
        NEW_TOKENS: card.max_new_tokens,
        CHAT: card.chat,
        VARIANT: card.variant,
    }.items():
        st.session_state[key] = value
    if card.spec and card.spec not in models:
        state.say_after_rerun(f"The card names the model {card.spec}, which is not listed here; choose one.")


def begin(task: str) -> None:
    """On the first visit the fields hold the built-in card for the data's task."""
    if USER in st.session_state:
        return
    cards = catalog.built_in_cards()
    fitting = [c for c in cards.values() if task in c.tasks and not c.anchored and not c.variant]
    chosen = (fitting or list(cards.values()))[0]
    fill_fields(chosen)
    st.session_state.setdefault(SOURCE, ("built-in", chosen.name))


def fields() -> Draft:
    """Draw the fields; what they make is checked at once."""
    left, right = st.columns([2, 3], gap="large")
    with left:
        protocol, mode = _what_is_asked()
        labels = st.text_area("Answers offered", key=LABELS, height=150, help=_LABEL_HELP, persist_state="session")
        _reading(mode, protocol)
    with right:
        limit = catalog.MAX_PROMPT + _FAR  # room to paste too much and be told so, rather than cut in silence
        st.text_area(
            "System message", key=SYSTEM, height=90, max_chars=limit, persist_state="session",
            placeholder="empty leaves the model's own", help="Sent as it is; placeholders are not filled in here.",
        )  # fmt: skip
        st.text_area(
            "User message", key=USER, height=380, max_chars=limit, persist_state="session", help=_placeholders(),
        )  # fmt: skip
        ui.note(_placeholders())
    return _draft(str(labels or ""))


def _what_is_asked() -> tuple[str, str]:
    models = catalog.card_models()
    if st.session_state.get(MODEL) not in models:
        state.put(MODEL, next(iter(models)))
    ui.pick("Model that is asked", list(models), key=MODEL, title=lambda spec: models[spec].title)
    protocol = ui.pick("It is asked for", list(PROTOCOLS), key=PROTOCOL, title=PROTOCOLS.__getitem__)
    st.multiselect(
        "Written for data of the kind", [task.value for task in Task], key=TASK_LIST,
        format_func=lambda t: TASKS[Task(t)], persist_state="session",
    )  # fmt: skip
    mode = ui.pick("Its answer is read from", list(MODES), key=MODE, title=MODES.__getitem__)
    return protocol, mode


def _reading(mode: str, protocol: str) -> None:
    """Fields for reading and writing the answer; only those that matter for the mode."""
    if mode == "json":
        st.text_input("Path of the value", key=PATH, placeholder="$.score", max_chars=200, persist_state="session")
    if mode != "label probabilities":
        st.number_input(
            "Longest reply, in tokens", 1, 2048, key=NEW_TOKENS, persist_state="session",
            help="Decoding is greedy: the likeliest token each time, so that a verdict can be repeated.",
        )  # fmt: skip
        if protocol == Protocol.POINTWISE:
            st.toggle("Scores between two labels count, such as 3.5", key=DECIMALS, persist_state="session")
    st.toggle(
        "Through the model's chat template", key=CHAT, persist_state="session",
        help="Off sends the prompt as plain text, for a model without a chat template.",
    )  # fmt: skip


def _placeholders() -> str:
    names = " ".join(f"{{{name}}}" for name in catalog.PLACEHOLDERS if name != "candidates")
    return f"Filled in: {names}. Other braces stay as they are, so a JSON example needs no escaping."


def _draft(labels: str) -> Draft:
    held = st.session_state
    model = str(held[MODEL])
    notices = catalog.prompt_notices(str(held[SYSTEM] or ""), str(held[USER] or ""))
    try:
        card = _made(labels)
    except EngineError as error:
        return Draft(None, model, str(error), notices)
    return Draft(card, model, "", catalog.card_notices(card))


def _made(labels: str) -> catalog.Card:
    held = st.session_state
    names, values, spellings = parse_labels(labels)
    name = str(held.get(NAME) or "").strip()
    written = held[MODE] != "label probabilities"
    chosen: dict[str, object] = {
        "name": name or "unsaved",
        "spec": held[MODEL],
        "tasks": held[TASK_LIST],
        "protocol": held[PROTOCOL],
        "mode": held[MODE],
        "labels": names,
        "values": values,
        "spellings": spellings,
        "system": held[SYSTEM] or "",
        "user": held[USER] or "",
        "chat": held[CHAT],
        "variant": held[VARIANT],
        "remark": held[REMARK],
    }
    if written:
        chosen |= {"max_new_tokens": held[NEW_TOKENS], "decimals": held[DECIMALS]}
    if held[MODE] == "json":
        chosen["path"] = str(held[PATH] or "").strip() or "$.score"
    return catalog.make_card(chosen, f"“{name}”" if name else "")


def parse_labels(text: str) -> tuple[list[str], list[float], list[list[str]]]:
    """Labels, values and further spellings from lines such as `Yes | YES = 1`.

    Raises:
        InputError: a line has a value that is no number, or some lines have one and others none.
    """
    names: list[str] = []
    values: list[float] = []
    more: list[list[str]] = []
    for line in filter(None, (part.strip() for part in text.splitlines())):
        answer, equals, value = line.rpartition("=") if "=" in line else (line, "", "")
        first, *others = (form.strip() for form in answer.split("|"))
        names.append(first)
        more.append(others)
        if equals:
            try:
                values.append(float(value.replace(",", ".")))
            except ValueError:
                raise InputError(f"The answer line {line[:60]!r}: {value.strip()!r} is no number.") from None
    if values and len(values) != len(names):
        raise InputError("Some answers have a number and others have none; give each one, or none.")
    return names, values, more if any(more) else []
