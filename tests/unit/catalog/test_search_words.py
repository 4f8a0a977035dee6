"""How texts become words, and which words stand for each other."""

from __future__ import annotations

import pytest

from toolcrib.catalog.search.index import Vocabulary, count_typos, split_words, stem


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


@pytest.mark.parametrize("word", ["погодами", "日本", "naïve", "", "s3", "ing", "ed", "es", "123ing"])
def test_what_is_not_an_english_word_stays_as_it_is(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("one", "other", "slips"),
    [
        ("delete", "delete", 0),
        ("delte", "delete", 1),
        ("dleete", "delete", 1),  # two letters exchanged are one slip
        ("deletee", "delete", 1),
        ("dilete", "delete", 1),
        ("dlete", "deleted", 2),
        ("tempratrue", "temperature", 2),
        ("a", "", 1),
        ("file", "mails", 3),
    ],
)
def test_typos_are_letters_wrong_missing_added_or_swapped(one: str, other: str, slips: int) -> None:
    assert count_typos(one, other, 2) == slips
    assert count_typos(other, one, 2) == slips


TEXT = "delete deleted file files repository repo weather whether translate create remove github data base"
WORDS = Vocabulary(split_words(TEXT))


def test_a_word_counts_more_than_its_forms() -> None:
    forms = WORDS.forms_of("delete")
    assert forms["delete"] == 1.0
    assert 0.7 < forms["deleted"] < 1.0
    assert forms["remove"] < forms["deleted"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("deleting", "delete"),
        ("erase", "delete"),
        ("delte", "delete"),
        ("fiels", "file"),
        ("reposit", "repository"),
        ("repositories", "repository"),
        ("trnaslate", "translate"),
        ("weathr", "weather"),
        ("gihtub", "github"),
        ("database", "data"),
        ("filesystem", "files"),
        ("reposits", "repository"),
    ],
)
def test_an_unknown_word_stands_for_similar_ones(written: str, meant: str) -> None:
    assert meant in WORDS.forms_of(written)


def test_a_known_word_is_not_taken_for_a_similar_one() -> None:
    assert "whether" not in WORDS.forms_of("weather")


@pytest.mark.parametrize("word", ["qqqqqq", "zz", "x" * 64, "日本", "12345"])
def test_a_word_like_no_other_stands_for_nothing(word: str) -> None:
    assert WORDS.forms_of(word) == {}


def test_the_nearest_words_are_the_most_similar() -> None:
    assert WORDS.nearest_to("wether") == ["weather", "whether"]
    assert WORDS.nearest_to("qqqqqq") == []
