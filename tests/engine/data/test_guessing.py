"""The guess at columns and task, from csv files of many shapes."""

import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from engine.core.schema import Task
from engine.data.guessing import guess_columns, plain_words
from engine.data.mapping import check_mapping


def table(csv: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(csv), dtype=str, keep_default_na=False)


SUPPORT = """ticket_id,customer_message,agent,agent_reply,csat
T1,"Where is my parcel, please?",Ann,"It is on its way to you, sorry.",4
T1,"Where is my parcel, please?",Bob,"We do not know yet where it is.",2
T2,"How do I reset it, please?",Ann,"Press the red button for long.",5
T2,"How do I reset it, please?",Bob,"Please read the manual again.",3
"""
PLAIN = """id,prompt,response,system
1,Write a poem about rain,Drip drop goes the rain today,a
2,Write a poem about rain,Rain rain rain,b
3,Name a fruit,Apple,a
4,Name a fruit,Pear,b
"""
GERMAN = """Frage;Nr;Antwort;Modell;Bewertung
Was ist die Hauptstadt von A?;1;Die Hauptstadt ist B;m0;3
Was ist die Hauptstadt von A?;1;Die Hauptstadt ist C;m1;1
Was ist die Hauptstadt von D?;2;Die Hauptstadt ist E;m0;2
Was ist die Hauptstadt von D?;2;Die Hauptstadt ist F;m1;5
""".replace(";", ",")
FRENCH = """Question posée,Réponse,Modèle,Note
Quelle est la capitale de A ?,C'est la ville B,m0,3
Quelle est la capitale de D ?,C'est la ville E,m1,1
"""
SPANISH = """pregunta,respuesta,referencia,es_correcto
Cuanto es 2+2?,4,4,1
Cuanto es 2+3?,6,5,0
"""
CHINESE = """问题,回答,模型,评分
天空为什么是蓝色的？,因为散射,m1,4
天空为什么是蓝色的？,不知道,m2,1
水是湿的吗？,是的,m1,5
水是湿的吗？,不是,m2,2
"""
COMPOUNDS = """Ticketnummer,Kundenanfrage,KI-Antwort,Sprachmodell,Kundenzufriedenheit
T1,Wo ist mein Paket heute?,Es ist schon unterwegs zu Ihnen,A,4
T1,Wo ist mein Paket heute?,Das wissen wir leider nicht,B,2
T2,Wie stelle ich es ein?,Bitte den roten Knopf drücken,A,5
T2,Wie stelle ich es ein?,Lesen Sie bitte das Handbuch,B,3
"""
VERIFIED = """question,model_answer,gold_answer,is_correct
What is 2+2?,4,4,1
What is 2+3?,6,5,0
What is 2+4?,6,6,1
"""
NAMELESS = """a,b,c
The quick brown fox jumps over it,first reply that is long enough,1
The quick brown fox jumps over it,second reply that is long enough,2
Another text that is a context here,third reply that is long enough,1
Another text that is a context here,fourth reply that is long enough,2
"""
SUMMARIES = "article,summary,human_rating,llm_score\n" + "\n".join(
    f'"{"Long text here. " * 40}{i}",A short summary {i},{i % 5},{i % 3}' for i in range(4)
)
TURNS = """history,bot_message,conversation_id
"User: hi\nBot: hello\nUser: where?","There it is, on the left side",c1
"User: hi\nBot: ho\nUser: when?","Now it is, on the right side",c2
"""
SHAPES = [
    (
        SUPPORT,
        {"context": "customer_message", "response": "agent_reply", "item_id": "ticket_id", "system": "agent",
         "human_score": "csat"},
        Task.DIALOGUE,
    ),
    (PLAIN, {"context": "prompt", "response": "response", "response_id": "id", "system": "system"}, Task.INSTRUCTION),
    (
        GERMAN,
        {"context": "Frage", "item_id": "Nr", "response": "Antwort", "system": "Modell", "human_score": "Bewertung"},
        Task.QUESTION,
    ),
    (
        FRENCH,
        {"context": "Question posée", "response": "Réponse", "human_score": "Note"},
        Task.QUESTION,
    ),
    (
        SPANISH,
        {"context": "pregunta", "response": "respuesta", "reference": "referencia", "quality": "es_correcto"},
        Task.VERIFICATION,
    ),
    (CHINESE, {"context": "问题", "response": "回答", "system": "模型", "human_score": "评分"}, Task.QUESTION),
    (
        VERIFIED,
        {"context": "question", "response": "model_answer", "reference": "gold_answer", "quality": "is_correct"},
        Task.VERIFICATION,
    ),
    (
        COMPOUNDS,
        {"item_id": "Ticketnummer", "response": "KI-Antwort", "system": "Sprachmodell", "context": "Kundenanfrage",
         "human_score": "Kundenzufriedenheit"},
        Task.QUESTION,
    ),
    (
        "Pregunta,Respuesta del modelo,Respuesta correcta\n¿Cuanto es 2+2?,Son 4,4\n¿Cuanto es 2+3?,Son 6,5\n",
        {"response": "Respuesta del modelo", "reference": "Respuesta correcta"},
        Task.QUESTION,
    ),
    (NAMELESS, {"context": "a", "response": "b"}, Task.DIALOGUE),
    (SUMMARIES, {"context": "article", "response": "summary", "human_score": "human_rating"}, Task.SUMMARY),
    (TURNS, {"context": "history", "response": "bot_message", "item_id": "conversation_id"}, Task.DIALOGUE),
    ("n1,n2\n1,2\n3,4\n", {}, Task.DIALOGUE),
    ("text\nhello there my friend\n", {"response": "text"}, Task.DIALOGUE),
]  # fmt: skip


@pytest.mark.parametrize(("csv", "expected", "task"), SHAPES)
def test_shapes(csv, expected, task):
    frame = table(csv)
    found = guess_columns(frame)
    assert {name: found.mapping.get(name) for name in expected} == expected
    assert found.task == task
    if "response" in found.mapping:
        check_mapping(frame, found.mapping)  # no column twice, none that is not there
    assert found.certain is (csv not in (NAMELESS, "n1,n2\n1,2\n3,4\n"))


@pytest.mark.parametrize("csv", [SUPPORT, GERMAN, CHINESE, VERIFIED])
def test_the_order_of_columns_and_rows_does_not_matter(csv):
    frame = table(csv)
    turned = frame.iloc[::-1, ::-1].reset_index(drop=True)
    assert guess_columns(turned).mapping == guess_columns(frame).mapping


def test_what_rests_on_values_alone_is_unsure_and_a_field_s_own_name_is_sure():
    assert {one.sure for one in guess_columns(table(NAMELESS)).columns.values()} == {"unsure"}
    assert guess_columns(table(PLAIN)).columns["response"].sure == "sure"
    assert guess_columns(table(SUPPORT)).columns["response"].sure == "likely"


def test_the_context_is_what_repeats_whichever_stands_first():
    frame = table(NAMELESS)[["b", "a"]]
    assert guess_columns(frame).mapping == {"context": "a", "response": "b"}


def test_repeated_contexts_and_items_of_one_response_are_told():
    assert any("4 rows have 2 different contexts" in line for line in guess_columns(table(PLAIN)).notices)
    assert any("one response" in line for line in guess_columns(table(TURNS)).notices)
    assert not guess_columns(table(SUPPORT)).notices


def test_ids_that_differ_within_a_context_do_not_name_items():
    """Twelve items in place of six would make every interval too narrow."""
    frame = table(PLAIN).rename(columns={"id": "question_id"})
    assert guess_columns(frame).mapping["response_id"] == "question_id"
    assert "item_id" not in guess_columns(frame).mapping


def test_scores_of_machines_are_not_those_of_people():
    frame = table("prompt,response,judge_score,gpt4 rating\nA b c?,d e f,1,2\nG h i?,j k l,3,4\n")
    assert "human_score" not in guess_columns(frame).mapping


def test_one_column_of_a_speaker_is_a_name_or_a_text_by_its_values():
    names = table(
        "customer,agent,reply\nHow do I do this now?,Ann,Like this and that\nWhy is it red today?,Ann,No idea\n"
    )
    texts = table(
        "customer,agent\nHow do I do this now?,You press the red button\nWhy is it red?,That is its colour now\n"
    )
    assert guess_columns(names).mapping["response"] == "reply"
    assert guess_columns(texts).mapping == {"context": "customer", "response": "agent"}


def test_words_of_names():
    assert plain_words("Réponse_agentID") == ("reponse", "agent", "id")
    assert plain_words(" humanScore (1-5)") == ("human", "score", "1", "5")


NAMES = st.sampled_from(
    ["id", "Response", "customer_message", "agent", "评分", "réponse", "gold answer", "x", "", "1", "is_correct"]
)
CELLS = st.one_of(st.none(), st.text(max_size=40), st.sampled_from(["1", "0", "4.5", "a b c d e f g h i j k l", " "]))


@given(
    st.data(), st.lists(st.one_of(NAMES, st.text(max_size=12)), min_size=1, max_size=6, unique=True), st.integers(0, 5)
)
@budget(max_examples=60)
def test_any_table_gives_a_mapping_that_fits_it(data, names, n_rows):
    frame = pd.DataFrame(
        {name: pd.Series(data.draw(st.lists(CELLS, min_size=n_rows, max_size=n_rows)), dtype=object) for name in names}
    )
    found = guess_columns(frame)
    assert len(set(found.mapping.values())) == len(found.mapping)
    assert set(found.mapping.values()) <= set(names)
    if "response" in found.mapping:
        assert check_mapping(frame, found.mapping) == found.mapping


def test_responses_beside_the_chosen_one_and_json_are_said():
    frame = table(
        "prompt,one,two\n" + "\n".join(f"What is {i}?,It is {i} I think so,No idea at all {i}" for i in range(4))
    )
    assert any("one" in line and "Only" in line for line in guess_columns(frame).notices)
    frame = table(
        'messages,output\n"[{""role"": ""user""}]",It is on the way to you\n"[{""role"": ""bot""}]",Not yet I fear'
    )
    assert any("holds JSON" in line for line in guess_columns(frame).notices)


def test_a_column_of_a_few_short_sources_is_no_context():
    rows = "\n".join(f"What is {i // 2} and why?,It is number {i} I would say,s{i % 2}" for i in range(6))
    assert guess_columns(table(f"Q,A,source\n{rows}")).mapping["context"] == "Q"
