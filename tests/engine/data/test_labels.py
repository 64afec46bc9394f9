"""Blind labelling: exact inclusion probabilities, answers that survive a crash, undo, two people, import errors."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.data.label_plan import DISAGREEMENT, UNCERTAINTY, Kind, Scale, allocate, draw, make_plan, strata_of
from engine.data.labels import (
    COLUMNS,
    answers_table,
    export_table,
    final_answers,
    import_answers,
    list_plans,
    open_session,
    save_plan,
)

BOTH = (UNCERTAINTY, DISAGREEMENT)


def rows(n: int = 60) -> pd.DataFrame:
    """Rows of three answers to an item, with probabilities all over [0, 1] and some disagreement."""
    chance = (np.arange(n) * 0.37) % 1
    return pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(n)], "item": [f"q{i // 3}" for i in range(n)],
            "system": [f"m{i % 3}" for i in range(n)], "group": "g", "probability": chance,
            "verdict": ["pass" if p >= 0.5 else "fail" for p in chance],
            "disagree": [float(i % 4 == 0) for i in range(n)],
        }
    )  # fmt: skip


def session(settings, n: int = 12, kind: Kind = Kind.PASS, by=(), **more):
    return save_plan(make_plan(rows(), data="d", scale=Scale(kind), n=n, by=by, **more), settings.labels)


# The draw.


@pytest.mark.parametrize("by", [(), (UNCERTAINTY,), (DISAGREEMENT,), BOTH])
def test_one_over_the_inclusion_probabilities_of_the_drawn_rows_sums_to_all_rows(by):
    for n in (15, 29, 60):
        plan = make_plan(rows(), data="d", scale=Scale(), n=n, by=by, seed=n)
        drawn = plan.rows["place"].notna()
        assert drawn.sum() == n == len(plan.order)
        assert (1 / plan.inclusion()[drawn]).sum() == pytest.approx(60)
        assert plan.inclusion().sum() == pytest.approx(n)  # the expected size of the sample is its size


def test_rows_are_drawn_as_often_as_their_inclusion_probability_says():
    population, draws = rows(), 1500
    chance = make_plan(population, data="d", scale=Scale(), n=20, by=BOTH).inclusion().to_numpy()
    names, spreads = strata_of(population, BOTH)
    rng, counts = np.random.default_rng(5), np.zeros(60)
    for _ in range(draws):
        counts[draw(names, spreads, 20, rng)] += 1
    assert chance.min() < 0.75 * chance.max()
    error = np.sqrt(chance * (1 - chance) / draws)
    assert np.abs(counts / draws - chance)[error > 0].max() < 4 * error.max()
    assert (counts[chance == 1] == draws).all()


def test_weighted_labels_of_part_of_the_plan_are_unbiased_where_the_plain_mean_is_not():
    population = rows().assign(probability=np.linspace(0, 1, 60) ** 3)
    truth = (np.abs(population["probability"] - 0.5) < 0.25).to_numpy(dtype=float)  # what stands in the middle passes
    plan = make_plan(population, data="d", scale=Scale(), n=24, by=(UNCERTAINTY,))
    names, spreads = strata_of(population, (UNCERTAINTY,))
    rng, ids, weighted, plain = np.random.default_rng(7), population["id"].to_numpy(), [], []
    for _ in range(120):
        held = draw(names, spreads, 24, rng)[:15]  # the work stopped here
        chance = plan.inclusion(ids[held]).to_numpy()[held]
        assert (1 / chance).sum() == pytest.approx(60)
        weighted.append((truth[held] / chance).sum() / 60)
        plain.append(truth[held].mean())
    error = np.std(weighted) / np.sqrt(120)
    assert np.mean(weighted) == pytest.approx(truth.mean(), abs=4 * error)
    assert abs(np.mean(plain) - truth.mean()) > 8 * error


def test_the_allocation_has_the_least_variance_of_all():
    sizes, spreads = {"a": 30, "b": 9, "c": 3}, {"a": 0.2, "b": 0.5, "c": 0.5}

    def variance(drawn):
        return sum((sizes[h] * spreads[h]) ** 2 / drawn[h] for h in sizes)

    found = allocate(sizes, spreads, 12)
    every = [
        {"a": a, "b": b, "c": 12 - a - b} for a in range(2, 9) for b in range(2, 10) if 2 <= 12 - a - b <= sizes["c"]
    ]
    assert variance(found) == pytest.approx(min(map(variance, every)))


@pytest.mark.parametrize("n", [1, 61])
def test_a_number_of_rows_that_cannot_be_drawn_is_refused_with_what_can(n):
    with pytest.raises(InputError, match="from 2 to 60"):
        make_plan(rows(), data="d", scale=Scale(), n=n)


def test_strata_need_rows_that_differ():
    alike = rows().assign(probability=0.5)
    with pytest.raises(InputError, match="take the plan at random"):
        make_plan(alike, data="d", scale=Scale(), n=10, by=(UNCERTAINTY,))


def test_the_seed_decides_everything_and_the_plan_is_named_by_its_content():
    one, same, other = (make_plan(rows(), data="d", scale=Scale(Kind.PAIRS), n=20, seed=s) for s in (1, 1, 2))
    assert (one.plan_id, one.order) == (same.plan_id, same.order)
    assert one.plan_id != other.plan_id
    assert one.order != other.order
    assert set(one.order) != set(one.rows["id"][:20])
    assert 0 < one.rows["swapped"].sum() < 60


@pytest.mark.parametrize(("low", "high"), [(5, 1), (0, 10), (-1, 3), (1, 11)])
def test_a_scale_without_a_key_for_each_step_is_refused(low, high):
    with pytest.raises(InputError, match="whole numbers"):
        Scale(Kind.RATING, low, high)


# Answers on disk.


def test_work_goes_on_where_it_stopped_and_a_torn_line_loses_nothing_else(settings):
    held = session(settings)
    order = held.plan.order
    held.answer("Ann", order[0], "pass")
    held.skip("Ann", order[1], "cannot tell")
    path = held.folder / "answers.jsonl"
    path.write_bytes(path.read_bytes() + b'{"at": "2026", "annotator": "Ann", "row": "' + order[2].encode())
    again = open_session(held.plan.plan_id, settings.labels)
    assert again.answers().unreadable == 1
    assert again.next_row("Ann") == order[2]
    again.answer("Ann", order[2], "fail")
    found = open_session(held.plan.plan_id, settings.labels).answers()
    assert [one.label or one.skipped for one in found.of("Ann").values()] == ["pass", "cannot tell", "fail"]
    assert found.unreadable == 1
    pd.testing.assert_frame_equal(again.plan.rows, held.plan.rows)


def test_undo_takes_back_one_answer_after_the_other_also_in_a_new_session(settings):
    held = session(settings)
    order = held.plan.order
    for row in order[:3]:
        held.answer("Ann", row, "pass")
    again = open_session(held.plan.plan_id, settings.labels)
    assert again.undo("Ann") == order[2]
    assert again.undo("ann") == order[1]
    assert again.next_row("Ann") == order[1]
    again.answer("Ann", order[1], "fail")
    assert list(held.answers().of("Ann")) == order[:2]
    assert [again.undo("Ann") for _ in range(3)] == [order[1], order[0], None]
    assert held.answers().annotators == []
    assert len((held.folder / "answers.jsonl").read_text().splitlines()) == 8  # undo adds a line and takes none away


def test_two_writers_lose_no_line_and_never_answer_a_row_twice(settings):
    held = session(settings, n=40)

    def work(_):
        other, won = open_session(held.plan.plan_id, settings.labels), 0
        for row in held.plan.order:
            try:
                other.answer("Ann", row, "pass")
            except InputError:
                continue  # the other one was first
            won += 1
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 40
    lines = (held.folder / "answers.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["row"] for line in lines) == sorted(held.plan.order)


def test_a_plan_that_is_made_again_keeps_its_answers(settings):
    held = session(settings, seed=3)
    held.answer("Ann", held.plan.order[0], "pass")
    again = session(settings, seed=3)
    assert again.plan.created == held.plan.created
    assert len(again.answers().of("Ann")) == 1
    assert [one["plan_id"] for one in list_plans(settings.labels, "d")] == [held.plan.plan_id]
    assert list_plans(settings.labels, "other") == []


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda s: s.answer("Ann", s.plan.order[0], "maybe"), "allowed: pass, fail"),
        (lambda s: s.answer("Ann", "nobody", "pass"), "no row of this plan"),
        (lambda s: s.answer("  ", s.plan.order[0], "pass"), "no name"),
        (lambda s: s.skip("Ann", s.plan.order[0], " "), "with a reason"),
        (lambda s: s.settle("Ann", s.plan.order[0], "pass"), "Nothing is to be settled"),
        (lambda s: open_session("../" + s.plan.plan_id, s.folder.parent), "no labelling session"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_next_step(settings, act, said):
    held = session(settings)
    with pytest.raises(InputError, match=said):
        act(held)
    assert held.answers().given == {}


def test_a_damaged_plan_is_told_by_name(settings):
    held = session(settings)
    (held.folder / "rows.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="damaged"):
        open_session(held.plan.plan_id, settings.labels)


# Two people.


def finished(settings):
    """Ann passes everything, Ben fails the first row and cannot tell the second."""
    held = session(settings, n=4)
    for row in held.plan.order:
        held.answer("Ann", row, "pass")
    first, second, *rest = held.plan.order
    held.answer("Ben", first, "fail")
    held.skip("Ben", second, "cannot tell")
    for row in rest:
        assert not held.compared()
        held.answer("Ben", row, "pass")
    return held


def test_what_two_people_differ_on_is_settled_and_their_own_answers_stand(settings):
    held = finished(settings)
    first, second, *_ = held.plan.order
    assert held.compared()
    assert held.disagreements() == [first]
    assert final_answers(held)[first].skipped == "not settled"
    assert (final_answers(held)[second].label, final_answers(held)[second].annotator) == ("pass", "Ann")
    with pytest.raises(InputError, match="Settle"):
        held.undo("Ann")
    held.settle("Ben", first, "pass")
    assert final_answers(held)[first].label == "pass"
    assert held.answers().of("Ben")[first].label == "fail"
    table = export_table(held).set_index("id")
    assert table["label"].notna().sum() == 4
    assert table.loc[held.plan.order[2], "annotator"] == "Ann and Ben"


def test_there_is_no_third_person(settings):
    held = finished(settings)
    with pytest.raises(InputError, match="third"):
        held.answer("Cleo", held.plan.order[0], "pass")


# Out and in.


def test_an_export_holds_every_row_and_comes_back_whole(settings):
    held = session(settings, n=20, by=BOTH)
    for i, row in enumerate(held.plan.order):
        held.answer("Ann", row, "pass") if i % 3 else held.skip("Ann", row, "cannot tell")
    table = export_table(held, "Ann")
    assert tuple(table) == tuple(name for name in COLUMNS if name != "system_b")
    assert len(table) == 60
    labelled = table[table["label"].notna()]
    assert (1 / labelled["inclusion"]).sum() == pytest.approx(60)
    copy = save_plan(make_plan(rows(), data="d", scale=Scale(), n=20, by=BOTH, question="a copy"), settings.labels)
    assert copy.plan.order == held.plan.order
    cells = answers_table(held).astype("str")
    assert import_answers(copy, cells.where(answers_table(held).notna(), None)) == 20
    assert copy.answers().of("Ann") == held.answers().of("Ann")
    assert import_answers(copy, cells.where(answers_table(held).notna(), None)) == 0


def test_a_group_or_probability_that_nobody_knows_is_no_column(settings):
    bare = rows().drop(columns=["group", "probability", "verdict", "disagree", "system"])
    held = save_plan(make_plan(bare, data="d", scale=Scale(), n=5), settings.labels)
    assert list(export_table(held)) == [name for name in COLUMNS if name not in ("group", "probability", "system_b")]


def file(*lines: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(lines, columns=["id", "label", "annotator"])


def test_an_import_with_errors_names_each_and_takes_nothing(settings):
    held = session(settings)
    order = held.plan.order
    absent = next(one for one in held.plan.rows["id"] if one not in order)
    held.answer("Ann", order[0], "pass")
    wrong = file(
        (order[1], "pass", "Ann"), ("zz", "pass", "Ann"), (absent, "pass", "Ann"), (order[2], "great", "Ann"),
        (order[0], "fail", "Ann"), (order[3], "pass", "Ben"), (order[3], "no", "Ben"), (order[4], "yes", ""),
        (order[5], "pass", "Cleo"), ("unlabelled", "", ""),
    )  # fmt: skip
    with pytest.raises(InputError) as error:
        import_answers(held, wrong)
    said = str(error.value)
    assert [line.split(":")[0] for line in said.splitlines()[1:]] == [f"- Row {i}" for i in (2, 3, 4, 5, 7, 8, 9)]
    for part in ("no row of the data", "not drawn", "none of pass, fail", "two answers", "no name", "third"):
        assert part in said
    assert list(held.answers().of("Ann")) == [order[0]]
    assert import_answers(held, file((order[0], "1", "Ann"), (order[1], "0", "Ben"))) == 1


def test_an_import_without_its_columns_says_what_there_is(settings):
    with pytest.raises(InputError, match="it has: x"):
        import_answers(session(settings), pd.DataFrame({"x": ["1"]}))


@pytest.mark.parametrize(
    ("kind", "text", "label"),
    [
        (Kind.PASS, "Yes", "pass"), (Kind.PASS, "0", "fail"), (Kind.PASS, "4", None),
        (Kind.RATING, "4.0", "4"), (Kind.RATING, "4.5", None), (Kind.RATING, "6", None), (Kind.RATING, "nan", None),
        (Kind.PAIRS, "model_a", "a"), (Kind.PAIRS, "Tie", "tie"), (Kind.PAIRS, "left", None),
    ],
)  # fmt: skip
def test_labels_of_a_file_are_read_by_visible_rules(kind, text, label):
    assert Scale(kind).read(text) == label
