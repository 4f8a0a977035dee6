"""Words of texts, and words that stand for each other."""

from __future__ import annotations

import pytest

from toolcrib.catalog.search import split_words, stem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create_pull_request", "create pull request"),
        ("createPullRequest", "create pull request"),
        ("Create-Pull.Request", "create pull request"),
        ("getUserByID", "get user by id"),
        ("HTTPServer", "http server httpserver"),
        ("GitHub", "git hub github"),
        ("all URLs", "all urls"),
        ("s3_bucket", "s3 bucket"),
        ("oauth2", "oauth2 oauth"),
        ("Café Ångström", "cafe angstrom"),
        ("straße", "strasse"),
        ("ПОГОДА в городе", "погода в городе"),
        ("Ёлка", "елка"),
        ("日本語", "日本 本語"),
        ("検索 file", "検索 file"),
        ("ﬁle", "file"),  # one character that looks like two
        ("", ""),
        ("!? ...", ""),
        ("user's", "user s"),
    ],
)
def test_names_and_texts_give_the_same_words(text: str, words: str) -> None:
    assert split_words(text) == words.split()


@pytest.mark.parametrize(
    "forms",
    [
        "delete deletes deleted deleting deletion deleter",
        "create creates creating creation creator",
        "query queries querying queried",
        "run runs running ran runner",
        "translate translation translator translating",
        "copy copies copying copied",
        "summarize summarise summarizing summarization",
        "analyze analyse analysis analyses analytics",
        "notify notification notifications notifying",
        "convert converting conversion converter",
        "write writes writing wrote written",
        "address addresses",
        "box boxes",
        "stop stopped stopping",
        "pay paid paying payment payments",
        "manage managing manager management",
        "compress compression compressed",
        "encrypt encryption",
        "child children",
        "own owner owners ownership",
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "pair", ["user use", "new news2", "sing single", "bus business", "ring string", "pass past"]
)
def test_other_words_keep_stems_of_their_own(pair: str) -> None:
    first, second = pair.split()
    assert stem(first) != stem(second)


@pytest.mark.parametrize("word", ["погодами", "日本", "", "s3", "ing", "ed", "es", "123ing"])
def test_anything_that_is_not_an_english_word_stays_as_it_is(word: str) -> None:
    assert stem(word) == word
