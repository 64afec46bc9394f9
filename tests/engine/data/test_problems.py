"""Problems put together by what is to be done about them."""

from engine.data.raw import Problem, group_problems, place, rows_text


def missing(row, column="text", what="It is missing."):
    return Problem("warning", place(row, row + 1, column), what, "Fill it in.", row)


def test_identical_problems_are_one_with_their_rows():
    found = [missing(r) for r in range(3, 48, 3)]
    [group] = group_problems(found)
    assert group.where == "rows 3, 6, 9 and 12 more, column text"
    assert (group.what, group.count, group.rows[:2]) == ("It is missing.", 15, (3, 6))


def test_what_differs_stays_apart_and_what_blocks_comes_first():
    error = Problem("error", place(9, 10), "Twice.", "Rename.", 9)
    whole = Problem("warning", "the file", "No context.", "Choose.", None)
    groups = group_problems([missing(1), missing(2, "other, (line 3), column x"), whole, error])
    assert [g.where for g in groups] == [
        "row 9 (line 10)",
        "row 1 (line 2), column text",
        "row 2 (line 3), column other, (line 3), column x",
        "the file",
    ]


def test_one_remedy_with_several_findings_quotes_the_first():
    [group] = group_problems([missing(4, what="'a' is no number."), missing(2, what="'b' is no number.")])
    assert group.where == "rows 2 and 4, column text"
    assert group.what == "'a' is no number. (That is row 4; the others are alike.)"


def test_rows_in_words():
    assert rows_text([3]) == "row 3"
    assert rows_text([3, 6]) == "rows 3 and 6"
    assert rows_text([1, 2, 3, 4]) == "rows 1, 2, 3 and 4"
    assert rows_text([1, 2, 3, 4, 1500]) == "rows 1, 2, 3 and 2 more"
