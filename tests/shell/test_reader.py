"""Ends of statements in the text that the shell reads."""

from hypothesis import given
from hypothesis import strategies as st
from nyala.shell.reader import Statement, StatementReader, is_blank, split
from nyala.shell.repl import is_complete


def read(*texts):
    reader = StatementReader()
    items = [item for text in texts for item in reader.feed(text)]
    return items + list(reader.finish())


def test_statements_of_one_line():
    assert read("select 1; select 2;\n") == [Statement("select 1", 1), Statement("select 2", 1)]


def test_a_statement_over_lines_knows_where_it_begins():
    assert read("\n\nselect\n", "  1\n", ";\n", "select 2;") == [Statement("select\n  1", 3), Statement("select 2", 6)]


def test_placed_text_keeps_the_line_number():
    assert Statement("select 1", 3).placed == "\n\nselect 1"


def test_semicolons_inside_quotes_and_comments_end_nothing():
    text = """select ';', 'it''s;', ";" -- no; end\n, /* ; /* ; */ ; */ 1;"""
    assert [item.text for item in read(text)] == [text[:-1]]


def test_a_last_statement_needs_no_semicolon():
    assert [item.text for item in read("select 1;\nselect 2\n")] == ["select 1", "select 2"]


def test_empty_statements_and_comments_are_skipped():
    assert read(";;\n-- nothing\n/* nothing */ ;\n") == []


def test_backslash_commands_stand_on_lines_of_their_own():
    assert read("\\dt\nselect 1;\n  \\d t  \n") == ["\\dt", Statement("select 1", 2), "\\d t"]


def test_a_backslash_inside_a_statement_is_text():
    assert [item.text for item in read("select '\n\\q\n';")] == ["select '\n\\q\n'"]


def test_a_comment_before_a_command_is_dropped():
    assert read("-- tables\n\\dt\nselect 1;") == ["\\dt", Statement("select 1", 3)]


def test_reset_forgets_but_counts_lines():
    reader = StatementReader()
    assert list(reader.feed("select\n(\n")) == []
    assert reader.pending
    reader.reset()
    assert not reader.pending
    assert list(reader.feed("select 2;\n")) == [Statement("select 2", 3)]


def test_an_unclosed_comment_is_not_blank():
    assert not is_blank("/* open")
    assert is_blank("/* closed */ -- line")


@given(st.lists(st.sampled_from(["select 1", "'a;b'", '"x;"', "-- c;\n", "/* ; */", ";", "\n", " "]), max_size=12))
def test_reading_line_by_line_or_at_once_is_the_same(parts):
    text = "".join(parts)
    assert read(text) == read(*text.splitlines(keepends=True))


@given(st.lists(st.text("ab'\"; ", max_size=5), max_size=6))
def test_what_split_finds_rejoins(parts):
    text = ";".join(parts)
    spans, _ = split(text)
    rest = text[spans[-1][1] + 1 :] if spans else text
    assert "".join(text[a:b] + ";" for a, b in spans) + rest == text


def test_enter_runs_complete_input_only():
    assert is_complete("select 1;")
    assert is_complete("select 1; -- done")
    assert is_complete("\\dt")
    assert is_complete("  ")
    assert not is_complete("select 1")
    assert not is_complete("select ';")
    assert not is_complete("select 1; select")
    assert not is_complete("select 1; /* open ;")
