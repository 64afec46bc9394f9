"""A guess at what each column holds, and at the task, from names in many languages, repetition and length.

Every guess says what it rests on and how sure it is; the user sees it before it counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pandas as pd

from engine.core.errors import listed
from engine.core.schema import Task
from engine.data.mapping import FIELDS, QUALITY, all_say_correctness, parse_number, suggest_mapping

Sure = Literal["sure", "likely", "unsure"]
"""sure: a name that means one thing; likely: a word of the name and fitting values; unsure: the values alone."""
LOOKED_AT = 2_000
"""Rows that are looked at."""
_WORDS: Mapping[str, str] = {
    "response": "response reply answer output completion generation generated prediction candidate hypothesis summary "
    "antwort ausgabe zusammenfassung erwiderung reponse sortie resume respuesta salida resumen contestacion resposta "
    "saida resumo "
    "risposta uscita riassunto antwoord uitvoer samenvatting odpowiedz svar vastaus yanit cevap "
    "odpoved valasz ответ відповідь "
    "回答 答复 回复 响应 输出 摘要 応答 返信 出力 要約 답변 응답 출력 요약 رد إجابة उत्तर",
    "context": "prompt question instruction query context source document article passage dialogue dialog "
    "conversation history transcript message request input frage eingabe anweisung kontext quelle dokument artikel "
    "gespraech gesprach nachricht anfrage aufgabe consigne contexte conversation demande requete pregunta instruccion "
    "contexto fuente documento articulo dialogo conversacion mensaje consulta pergunta instrucao fonte artigo conversa "
    "mensagem domanda istruzione contesto fonte articolo conversazione messaggio richiesta vraag bron gesprek bericht "
    "pytanie fraga sporgsmal soru kysymys вопрос запрос контекст диалог питання 问题 提问 指令 提示 上下文 对话 原文 "
    " 質問 指示 文脈 対話 질문 지시 문맥 대화 سؤال प्रश्न",
    "system": "model system generator engine assistant bot agent variant provider llm modell modele modelo modello "
    "systeem systeme sistema модель система 模型 系统 モデル 모델",
    "human_score": "score rating stars grade csat mos points annotation bewertung note punkte punktzahl evaluation "
    "puntuacion calificacion valoracion nota avaliacao voto punteggio valutazione beoordeling cijfer ocena betyg "
    "zufriedenheit satisfaction "
    "оценка рейтинг 评分 分数 打分 評価 点数 점수 평가",
    "reference": "reference gold golden truth expected ideal target solution referenz musterloesung musterlosung "
    "loesung losung attendu referencia esperada esperado riferimento attesa referentie эталон 参考 标准 正解 参照 정답 "
    "참조",
    "group": "topic category type domain subset language lang queue department intent thema kategorie sprache sujet "
    "categorie tema categoria argomento onderwerp тема категория 类别 主题 カテゴリ 카테고리",
    "quality": "correct correctness right richtig korrekt correcte correcto correto corretto juist верно 正确 正しい",
}
"""Words of names, accents taken off; those of scripts without spaces count anywhere in the name."""
_OF_ITEM = (
    "ticket conversation thread case question prompt session dialog dialogue article doc document task chat item query "
    "instruction example context call topic gespraech frage fall vorgang dossier caso conversacion вопрос 问题 質問"
)
_OF_RESPONSE = "response reply answer output completion sample message row record summary antwort reponse respuesta"
_IDS = (
    "id ids nr no num number key uuid guid nummer numero nummero identifiant identificador kennung код 编号 番号 번호"
)
_ASKERS = (
    "customer user client visitor caller human kunde kundin nutzer cliente utilisateur usuario utente klant клиент"
)
_ANSWERERS = (
    "agent bot assistant chatbot model ai llm support staff rep operator helpdesk mitarbeiter berater agente asistente "
    "assistente conseiller medewerker оператор"
)
_SPOKEN = "message msg text utterance turn says said input body comment nachricht mensaje messaggio mensagem сообщение"
_PEOPLE = (
    "human expert gold golden correct ideal expected reference richtige korrekte erwartete correcta esperada correcte "
    "attendue bonne corretta"
)
_MACHINES = "judge llm gpt auto metric model bot"
_COMPOUND = re.compile(
    r"(?<=[a-z]{3})(anfrage|antwort|bewertung|modell|nachricht|nummer|punktzahl|zufriedenheit|(?<!an)frage)(text|en|n)?$"
)
"""Last parts of German compounds; the words before it are looked up too."""
_TAIL = frozenset({"text", "content", "body", "string", "value", "texte", "texto", "testo"})
_ID_LENGTH, _NAME_LENGTH, _TEXT_LENGTH = 80, 60, 20
"""Longest id and longest name of a system, and mean length of a text; less if most cells differ [characters]."""
_TURN = re.compile(
    r"^\W{0,2}(user|assistant|customer|agent|human|bot|system|speaker ?\w?|person ?\w?|client|kunde|[ab]|ai|support)"
    r"\s*:",
    re.I | re.M,
)
_LONG_SOURCE, _SHORTER = 400, 0.5
"""A source of so many characters, and a response at most so long beside it, are a text and its summary."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BY_FIELD = {name: _set(words) for name, words in _WORDS.items()}


class Found(NamedTuple):
    """One guessed column: its name, how sure, and what the guess rests on."""

    column: str
    sure: Sure
    why: str


@dataclass(frozen=True)
class Guess:
    """What a file seems to hold.

    Attributes:
        columns: field -> guessed column.
        task: of the responses.
        task_why: what that rests on.
        notices: what to know about repeated contexts and items of one response.
    """

    columns: dict[str, Found] = field(default_factory=dict)
    task: Task = Task.DIALOGUE
    task_why: str = ""
    notices: tuple[str, ...] = ()

    @property
    def mapping(self) -> dict[str, str]:
        """Field -> column, as `build_dataset` takes it."""
        return {name: found.column for name, found in self.columns.items()}

    @property
    def certain(self) -> bool:
        """True where the response was found and nothing is unsure."""
        return "response" in self.columns and all(found.sure != "unsure" for found in self.columns.values())


@dataclass(frozen=True)
class _Column:
    """A column in numbers: filled cells, different ones, mean length, shares of numbers and of cells with a space."""

    name: str
    words: tuple[str, ...]
    filled: int
    different: int
    length: float
    numbers: float
    spaces: float

    @property
    def repeats(self) -> bool:
        return self.different < self.filled

    @property
    def is_text(self) -> bool:
        varied = self.different > self.filled / 2
        return self.spaces >= 0.5 and self.length >= (_TEXT_LENGTH * 0.6 if varied else _TEXT_LENGTH)

    @property
    def is_name(self) -> bool:
        """A few short values, each several times: of systems, topics."""
        return 0 < self.different <= max(2, self.filled / 2) and self.length <= _NAME_LENGTH


def guess_columns(frame: pd.DataFrame) -> Guess:
    """Guess columns and task of a table; cells are text.

    A column with a field's own name or a known alias is taken first (`suggest_mapping`), then words of names with
    fitting values, then texts by repetition and length. No column is used twice.
    """
    rows = frame.head(LOOKED_AT)
    described = {str(name): _described(str(name), rows[name]) for name in rows.columns if str(name)}
    found: dict[str, Found] = {}
    for name, column in suggest_mapping(frame).items():
        if _allowed(name, described[column], described, by_alias=True):
            found[name] = Found(column, "sure", f"its name says {_label(name)}")
    letters = {column.words: name for name, column in described.items()}
    if {("q",), ("a",)} <= letters.keys():  # a question and its answer
        for name, word in (("context", ("q",)), ("response", ("a",))):
            found.setdefault(name, Found(letters[word], "likely", "columns are called Q and A"))
    _by_words(described, found)
    _ids(rows, described, found)
    _by_shape(described, found)
    _correctness(rows, described, found)
    ordered = {f.name: found[f.name] for f in (*FIELDS, QUALITY) if f.name in found}
    task, why = guess_task(frame, {name: one.column for name, one in ordered.items()})
    return Guess(ordered, task, why, (*_notices(frame, ordered), *_forms(rows, described, ordered)))


def _label(name: str) -> str:
    return next(f.label for f in (*FIELDS, QUALITY) if f.name == name).lower()


def plain_words(name: str) -> tuple[str, ...]:
    """`Réponse_agentID` is reponse, agent, id."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.strip())
    bare = "".join(c for c in unicodedata.normalize("NFKD", split) if not unicodedata.combining(c))
    words = re.findall(r"[^\W_]+", bare.casefold().replace("ß", "ss"))
    return tuple(part for word in words for part in _COMPOUND.sub(r" \1 \2", word).split())


def _described(name: str, values: pd.Series) -> _Column:
    filled = [v for v in values if isinstance(v, str) and v.strip()]
    n = max(len(filled), 1)
    return _Column(
        name,
        plain_words(name),
        len(filled),
        len(set(filled)),
        sum(map(len, filled)) / n,
        sum(parse_number(v) is not None for v in filled) / n,
        sum(" " in v.strip() for v in filled) / n,
    )


def _allowed(name: str, column: _Column, all_columns: Mapping[str, _Column], *, by_alias: bool = False) -> bool:
    """The values can be of this field."""
    if not column.filled:
        return by_alias and len(all_columns) < 2
    if name == "human_score":
        return column.numbers >= 0.5
    if name in ("system", "group"):
        return column.length <= _NAME_LENGTH if by_alias else column.is_name
    if name in ("item_id", "response_id"):
        return column.length <= _ID_LENGTH
    if name == "context" and set(column.words) <= _ALSO_NAMES and column.is_name and not column.is_text:
        return False
    return by_alias or name != "context" or column.numbers < 0.9


def _says(column: _Column, words: frozenset[str]) -> bool:
    return any(word in words for word in column.words) or any(
        len(word) > 1 and ord(word[0]) > 0x2E80 and word in column.name for word in words
    )


_ALSO_NAMES = _set("source input article document history passage")
"""Names of the context that also stand above a few short values: where a response comes from."""
_SPEECH = _set(_SPOKEN) | _BY_FIELD["response"]


def _name_score(name: str, column: _Column) -> float:
    """How much a column's name speaks for a field, from 0 to 1: its last telling word most."""
    words = [word for word in column.words if word not in _TAIL and not word.isdigit()] or list(column.words)
    if not words or set(words) & _set(_IDS):
        return 0.0
    people, asks, answers = (bool(set(words) & _set(one)) for one in (_PEOPLE, _ASKERS, _ANSWERERS))
    spoken = bool(set(words) & _SPEECH) or bool(set(column.words) & _set(_SPOKEN))
    if name == "response" and answers and words[-1] in _BY_FIELD["response"]:
        return 0.9
    if name == "response" and answers and column.is_text:
        return 0.9 if spoken else 0.75
    if name == "context" and asks and not set(words) & _BY_FIELD["response"] and (spoken or column.is_text):
        return 0.9
    if name == "response" and people:
        return 0.0
    if name == "reference" and people and set(words) & (_BY_FIELD["response"] | _BY_FIELD["reference"]):
        return 0.85
    if name == "context" and answers and spoken:
        return 0.0
    if name == "human_score" and {word.rstrip("0123456789") for word in words} & _set(_MACHINES):
        return 0.0
    if name == "system" and (column.is_text or set(words) & _BY_FIELD["response"]):
        return 0.0
    if words[-1] in _BY_FIELD[name]:
        return 0.8
    return 0.6 if _says(column, _BY_FIELD[name]) else 0.0


def _by_words(described: Mapping[str, _Column], found: dict[str, Found]) -> None:
    """The best fitting names, the strongest pair of field and column first."""
    scored = sorted(
        (
            (-_name_score(name, column), -column.length if name in ("response", "context") else 0.0, at, name)
            for at, column in enumerate(described.values())
            for name in _WORDS
            if name != "quality" and name not in found and _allowed(name, column, described)
        ),
        key=lambda one: one[:3],
    )
    columns = list(described.values())
    for score, _, at, name in scored:
        taken = {one.column for one in found.values()}
        if score >= 0 or name in found or columns[at].name in taken:
            continue
        found[name] = Found(columns[at].name, "likely", f"a word of its name says {_label(name)}")


def _ids(rows: pd.DataFrame, described: Mapping[str, _Column], found: dict[str, Found]) -> None:
    """Ids name items or responses: by the word beside "id", and by whether they repeat as the contexts do."""
    context = found["context"].column if "context" in found else ""
    own_name = "item_id" in found and plain_words(found["item_id"].column) == ("item", "id")
    if context and "item_id" in found and not own_name and _is_unlike(rows, found["item_id"].column, context):
        column_name = found.pop("item_id").column  # several ids in one context: they name responses
        if not described[column_name].repeats:
            found.setdefault("response_id", Found(column_name, "likely", "it differs in every row of one context"))
    taken = {one.column for one in found.values()}
    for column in described.values():
        named = bool(set(column.words) & _set(_IDS)) or column.words[-1:] in [("id",), ("ticket",), ("case",)]
        if column.name in taken or not named or not column.filled or column.length > _ID_LENGTH:
            continue
        if set(column.words) & (_set(_ASKERS) | _set(_ANSWERERS)):
            continue  # of a person or a machine, who may ask or answer several times
        of_item, of_response = _says(column, _set(_OF_ITEM)), _says(column, _set(_OF_RESPONSE))
        unlike = bool(context) and _is_unlike(rows, column.name, context)
        name = "item_id" if (column.repeats or (of_item and not of_response)) and not unlike else "response_id"
        if name == "response_id" and column.repeats:
            continue  # it names neither a response nor what was asked
        if name not in found:
            why = "it repeats" if column.repeats else "it differs in every row"
            found[name] = Found(column.name, "likely", f"its name says id, and {why}")
            taken.add(column.name)


def _is_unlike(rows: pd.DataFrame, column: str, context: str) -> bool:
    """True where one context stands under several ids: these cannot be its items."""
    pairs = rows[[column, context]].dropna().drop_duplicates()
    return bool(len(pairs) > 1 and pairs[context].duplicated().sum() > 0.2 * len(pairs))


def _by_shape(described: Mapping[str, _Column], found: dict[str, Found]) -> None:
    """Texts without a telling name: what repeats, or stands first, is the context; the last is the response."""
    taken = {one.column for one in found.values()}
    free = [c for c in described.values() if c.name not in taken and c.is_text and not set(c.words) & _set(_IDS)]
    if "response" not in found and free:
        varied = [c for c in free if c.different == max(one.different for one in free)]
        response = varied[-1] if len(free) > 1 or "context" in found else free[0]
        found["response"] = Found(response.name, "unsure", "a text that differs in nearly every row")
        free.remove(response)
    response_length = described[found["response"].column].length if "response" in found else 0.0
    if "context" not in found and free:
        repeating = [c for c in free if c.repeats]
        best = max(repeating or free, key=lambda c: (c.filled - c.different, c.length))
        why = "a text that repeats" if best.repeats else "a text beside the response"
        if best.repeats or best.length >= response_length / 4:
            found["context"] = Found(best.name, "unsure", why)


def _correctness(rows: pd.DataFrame, described: Mapping[str, _Column], found: dict[str, Found]) -> None:
    """A column of correct and incorrect beside a reference; a guess that it is a rating gives way."""
    if "reference" not in found or "quality" in found:
        return
    for column in described.values():
        holder = next((name for name, one in found.items() if one.column == column.name), "")
        if holder not in ("", "human_score") or not _says(
            column, _BY_FIELD["quality"] | {"label", "quality", "verdict"}
        ):
            continue
        if column.filled and all_say_correctness(rows[column.name]):
            found.pop(holder, None)
            found["quality"] = Found(column.name, "likely", "every cell says correct or incorrect")
            return


def guess_task(frame: pd.DataFrame, mapping: Mapping[str, str]) -> tuple[Task, str]:
    """Task that columns and the form of the contexts speak for, and why.

    Args:
        frame: the table.
        mapping: field -> column.
    """
    rows = frame.head(LOOKED_AT)
    if "reference" in mapping and "quality" in mapping:
        return Task.VERIFICATION, "there are references, and a column says which responses are correct"
    if "context" not in mapping or "response" not in mapping:
        return Task.DIALOGUE, "no context tells more"
    contexts = [v for v in rows[mapping["context"]] if isinstance(v, str) and v.strip()]
    responses = [v for v in rows[mapping["response"]] if isinstance(v, str) and v.strip()]
    words = {*plain_words(mapping["context"]), *plain_words(mapping["response"])}
    if not contexts or not responses:
        return Task.DIALOGUE, "no context tells more"
    turns = sum(len(_TURN.findall(text)) >= 2 for text in contexts) / len(contexts)
    asked = sum(text.rstrip().endswith(("?", "？", "؟")) for text in contexts) / len(contexts)
    longest = sorted(map(len, contexts))[len(contexts) // 2]
    shorter = sorted(map(len, responses))[len(responses) // 2] <= _SHORTER * longest
    if turns >= 0.5:
        return Task.DIALOGUE, "the contexts are turns of a dialogue"
    if words & _set("summary zusammenfassung resume resumen resumo riassunto samenvatting") or (
        shorter and longest >= _LONG_SOURCE and asked < 0.5
    ):
        return Task.SUMMARY, "long texts with shorter responses"
    if words & _set("dialogue dialog conversation history transcript chat customer gesprach conversacion"):
        return Task.DIALOGUE, "the context's name says dialogue"
    if words & _set("instruction prompt anweisung aufgabe consigne instruccion instrucao istruzione 指令 지시 指示"):
        return Task.INSTRUCTION, "the context's name says instruction"
    if asked >= 0.5 or words & _set("question frage pregunta pergunta domanda vraag вопрос"):
        return Task.QUESTION, "most contexts end with a question mark" if asked >= 0.5 else "its name says question"
    return Task.DIALOGUE, "nothing tells more; choose another if it is not a dialogue"


def _forms(rows: pd.DataFrame, described: Mapping[str, _Column], found: Mapping[str, Found]) -> list[str]:
    """What the chosen columns leave unsaid: further responses in a row, and JSON in place of a text."""
    if "response" not in found:
        return []
    said, taken = [], {one.column for one in found.values()}
    response = described[found["response"].column]
    alike = [
        c.name for c in described.values()
        if c.name not in taken and c.is_text and c.different > c.filled / 2 and c.length >= response.length / 4
        and not _is_json(rows[c.name])
    ]  # fmt: skip
    if alike:
        said.append(
            f"Only {response.name!r} is judged, though {listed(alike)} {'holds' if len(alike) == 1 else 'hold'} texts "
            "too. Give each response a row of its own, or bring two responses a row as pairs on the page Transport "
            "audit."
        )
    for name in ("response", "context"):
        if name in found and _is_json(rows[found[name].column]):
            said.append(f"The column {found[name].column!r} holds JSON; the judge reads it as it stands.")
    return said


def _is_json(values: pd.Series) -> bool:
    """Most filled cells are a JSON object or list, by their first and last character."""
    filled = [v.strip() for v in values if isinstance(v, str) and v.strip()]
    return bool(filled) and sum(v[0] + v[-1] in ("{}", "[]") for v in filled) > len(filled) / 2


def _notices(frame: pd.DataFrame, found: Mapping[str, Found]) -> tuple[str, ...]:
    """Repeated contexts, and items of one response: they decide what an interval treats as one observation."""
    if "response" not in found:
        return ()
    contexts = frame[found["context"].column].dropna() if "context" in found else pd.Series(dtype=object)
    said = []
    repeated = int(contexts.nunique())
    if "item_id" in found:
        ids = frame[found["item_id"].column]
        single = int((ids.value_counts() == 1).sum())
        pairs = pd.DataFrame({"id": ids, "context": frame[found["context"].column]}).dropna() if len(contexts) else None
        if pairs is not None and (split := int((pairs.groupby("context")["id"].nunique() > 1).sum())):
            said.append(
                f"{split:,} contexts stand under several item ids. They count as different items; leave the item id "
                "empty to group the rows by context."
            )
    else:
        single = int((contexts.value_counts() == 1).sum()) if len(contexts) else len(frame)
        if len(contexts) and repeated < len(contexts):
            said.append(
                f"{len(contexts):,} rows have {repeated:,} different contexts: rows of one context are one item."
            )
    items = int(frame[found["item_id"].column].nunique()) if "item_id" in found else repeated or len(frame)
    if single and items:
        which = "Every item has" if single >= items else f"{single:,} of {items:,} items have"
        said.append(f"{which} one response, so systems are not compared there.")
    return tuple(said)
