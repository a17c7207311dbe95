"""All text in two languages: files that are whole and used, the language that is chosen."""

import ast
import os
import re
import string
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from glassformer.audit.formulas import FormulaError
from glassformer.errors import (
    CheckpointError,
    DataError,
    Fragment,
    GlassformerError,
    UnknownNameError,
    did_you_mean,
)
from glassformer.language import (
    _SENTENCES,
    Bilingual,
    Language,
    Sentences,
    Words,
    as_language,
    as_prose,
    chosen_language,
    message_of,
    padded,
    speak,
    spoken,
    words,
)

PACKAGE = Path(__file__).parent.parent / "src" / "glassformer"
FILES = sorted(
    file
    for file in PACKAGE.rglob("*.toml")
    if file.parent.name != "recipes" and file.name not in ("weight_names.toml", "usage.toml")
)
HAN = re.compile("[\u4e00-\u9fff]")
# Chinese that is not prose: ranges of characters, and a test for Han letters.
NOT_PROSE = {"language.py", "translation.py"}


def placeholders(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


def is_filled(english: str) -> bool:
    """Whether the braces of a text are placeholders, not those of JSON."""
    return '{"' not in english


@cache
def trees() -> dict[Path, ast.Module]:
    files = PACKAGE.rglob("*.py")
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


@cache
def asked_for() -> tuple[set[str], list[re.Pattern[str]]]:
    """Every string of the code; keys put together from a word and more."""
    plain: set[str] = set()
    made: set[str] = set()
    for node in (node for tree in trees().values() for node in ast.walk(tree)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            plain.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = [
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+"
                for part in node.values
            ]
            if any(re.search("[a-z]{4}", part) for part in parts):
                made.add("".join(parts))
    return plain, [re.compile(pattern) for pattern in made]


def test_there_are_files() -> None:
    assert {"help.toml", "errors.toml", "films.toml", "messages.toml"} <= {f.name for f in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_both_languages_have_the_same_placeholders(file: Path) -> None:
    table = Words(file)
    assert len(table) > 0
    for key, said in table.items():
        assert said.en, key
        if is_filled(said.en) and file.name != "reference.toml":  # whose English is elsewhere
            assert placeholders(said.en) == placeholders(said.zh), key


def only_english(table: Mapping[str, Any]) -> Iterator[str]:
    """The keys of texts without Chinese, which `Words` takes for tables."""
    for key, entry in table.items():
        if isinstance(entry, dict):
            if isinstance(entry.get("en"), str) and not isinstance(entry.get("zh"), str):
                yield key
            yield from only_english(entry)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_every_text_has_chinese(file: Path) -> None:
    assert list(only_english(Words(file).data)) == []


def test_a_text_without_chinese_is_found() -> None:
    table = {"a": {"en": "x", "zh": "x"}, "b": {"c": {"en": "x"}}, "d": {"zh": "x"}, "e": 1}
    assert list(only_english(table)) == ["c"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_chinese_is_written_as_chinese(file: Path) -> None:
    """No half-width comma, colon or bracket after a Han character, no full stop of the West."""
    for key, said in Words(file).items():
        assert not re.search("[\u4e00-\u9fff][,;:!?(]", said.zh), key
        assert not re.search(r"[\u4e00-\u9fff]\.$", said.zh), key


SYSTEM = {os.strerror(number) for number in range(1, 140)}
ELSEWHERE = ("help.toml", "reference.toml", "corpora.toml")  # keys that are names; tested below
CLAIMS = {file for file in FILES if file.parent.name == "claims" and file.stem != "claim_figures"}


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if file.name not in ELSEWHERE and file not in CLAIMS],
    ids=lambda file: str(file.relative_to(PACKAGE)),
)
def test_every_text_is_used(file: Path) -> None:
    plain, patterns = asked_for()
    if file.name == "errors.toml":  # an error is found by its template: one string, or two joined
        starts = [re.escape(text) for text in plain if len(text) > 40]
        ends = "|".join(re.escape(text) for text in plain if len(text) > 10)
        patterns = [re.compile(f"(?:{'|'.join(starts)})(?:{ends})")]
    keys = set(Words(file)) - plain - SYSTEM
    unused = [key for key in keys if not any(pattern.fullmatch(key) for pattern in patterns)]
    assert unused == []


def keys_asked_for() -> Iterator[tuple[str, str, str]]:
    """File, table and key of each `say("key", …)` with a constant key."""
    for file, tree in trees().items():
        module = "glassformer." + ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        tables: dict[str, str] = {}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and ast.unparse(node.value.func) == "words"
                and isinstance(node.targets[0], ast.Name)
            ):
                (given,) = node.value.args
                is_own = ast.unparse(given) == "__name__"
                table = module if is_own else str(ast.literal_eval(given))
                tables[node.targets[0].id] = table
        for node in ast.walk(tree):
            name, key = "", None
            if isinstance(node, ast.Call) and node.args:
                name = ast.unparse(node.func).removesuffix(".both")
                key = node.args[0]
            elif isinstance(node, ast.Subscript):
                name, key = ast.unparse(node.value), node.slice
            if name in tables and isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield str(file.relative_to(PACKAGE)), tables[name], key.value


def test_every_text_that_is_asked_for_is_there() -> None:
    asked = list(keys_asked_for())
    assert len(asked) > 150
    # `say` also names the speaker of a lesson and the help's own table, inside functions
    shadowed = words("glassformer.cli.help")
    missing = [
        (file, key)
        for file, table, key in asked
        if key not in words(table) and not (file == "cli/__init__.py" and key in shadowed)
    ]
    assert missing == []


def test_every_word_of_the_renderers_is_there() -> None:
    """They look words up in a plain mapping of their language: `words["key"]`."""
    asked = {
        node.slice.value
        for file, tree in trees().items()
        if file.relative_to(PACKAGE).parts[0] in ("documents", "tracing", "explorer")
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value).split(".")[-1] == "words"
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }
    assert len(asked) > 20
    assert asked - set(words("glassformer.documents.renderer")) == set()


def test_chinese_prose_stands_in_no_python_file() -> None:
    found = {
        file.name for file in PACKAGE.rglob("*.py") if HAN.search(file.read_text(encoding="utf-8"))
    }
    assert found <= NOT_PROSE


def test_every_recipe_setting_and_data_set_has_chinese() -> None:
    from glassformer.data.corpora import CORPORA
    from glassformer.training.recipes import RECIPES, recipe
    from glassformer.training.settings import settings_of

    known = set(words("glassformer.training.reference"))
    names = {
        setting.name.removeprefix("first.").replace(".", " ")
        for recipe_name in RECIPES
        for setting in settings_of(recipe(recipe_name))
    }
    wanted = {f"recipe {name}" for name in RECIPES} | {f"setting {name}" for name in names}
    assert wanted - known == set(), "without Chinese in training/reference.toml"
    assert known - wanted == set(), "in training/reference.toml, but neither recipe nor setting"
    terms = {corpus.about for corpus in CORPORA.values()}
    terms |= {corpus.licence for corpus in CORPORA.values() if not corpus.licence.startswith("CC")}
    assert set(words("glassformer.data.corpora")) == terms


# --- which language ---


@pytest.mark.parametrize(
    ("option", "variables", "expected"),
    [
        (None, {}, "en"),
        (None, {"LANG": "zh_CN.UTF-8"}, "zh"),
        (None, {"LANG": "de_DE.UTF-8"}, "en"),
        (None, {"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        (None, {"LANG": "C", "LC_MESSAGES": "zh_TW"}, "zh"),
        (None, {"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
        (None, {"LANG": "zh_CN.UTF-8", "GLASSFORMER_LANG": "en"}, "en"),
        (None, {"GLASSFORMER_LANG": "zh"}, "zh"),
        ("en", {"GLASSFORMER_LANG": "zh"}, "en"),
        ("zh", {}, "zh"),
    ],
)
def test_the_option_goes_before_the_variable_and_that_before_the_locale(
    option: str | None,
    variables: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LANG", "LC_ALL", "LC_MESSAGES", "GLASSFORMER_LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert chosen_language(option) == expected


def test_a_language_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'fr'; there are en, zh"):
        as_language("fr")
    monkeypatch.setenv("GLASSFORMER_LANG", "fr")
    with pytest.raises(GlassformerError, match="GLASSFORMER_LANG must be en or zh, got 'fr'"):
        chosen_language()


# --- sentences ---


@pytest.fixture
def chinese() -> Iterator[None]:
    speak("zh")
    yield
    speak("en")


def test_a_field_may_have_two_languages_itself() -> None:
    film = Bilingual("a {kind} film", "{kind}影片").format(kind=Bilingual("good", "好"))
    assert film == Bilingual("a good film", "好影片")
    assert Bilingual('{"a": 1}', "花括号 {}").format() == Bilingual('{"a": 1}', "花括号 {}")


def test_a_table_in_a_file_is_part_of_the_key(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        'size = {en = "{n} bytes", zh = "{n} 字节"}\n"as it is" = {zh = "原样"}\n'
        '[a.b]\nc = {en = "d", zh = "丁"}\nother = [1]\n',
        encoding="utf-8",
    )
    say = Words(file)
    assert set(say) == {"size", "as it is", "a b c"}
    assert say("size", n=3) == "3 bytes"
    assert say["as it is"] == Bilingual("as it is", "原样")
    assert (say.of("as it is"), say.of("unknown")) == ("as it is", "unknown")
    assert say.data["a"]["b"]["other"] == [1]


def test_chinese_is_spaced_outside_of_quotes() -> None:
    assert as_prose("位置 4是 “a中b” 和W_Q得", "zh") == "位置 4 是“a中b”和 W_Q 得"


def test_an_english_sentence_begins_with_a_capital() -> None:
    assert as_prose("a label. (another.) and one.", "en") == "A label. (another.) And one."
    assert as_prose("a heading", "en") == "a heading"


def test_sentences_take_the_first_file_that_has_a_key(tmp_path: Path) -> None:
    tables = []
    for name, texts in {"own": 'a = {en = "own {n}", zh = "z"}', "all": (
        'a = {en = "all", zh = "z"}\nb = {en = "{n}.", zh = "{n}"}\n'
        'comma = {en = ", ", zh = "、"}\nand = {en = " and ", zh = "和"}'
    )}.items():  # fmt: skip
        file = tmp_path / f"{name}.toml"
        file.write_text(texts, encoding="utf-8")
        tables.append(Words(file))
    say = Sentences("en", *tables)
    assert (say("a", n=1), say["a"], say("b", n="x y")) == ("own 1", "own {n}", "X y.")
    assert list(say) == ["a", "b", "comma", "and"] and "c" not in say
    assert [say.listed("xyz"[:n]) for n in range(4)] == ["", "x", "x and y", "x, y and z"]
    with pytest.raises(KeyError, match=r"own\.toml lacks 'c', or its Chinese"):
        say["c"]


@pytest.mark.usefixtures("chinese")
def test_a_sentence_is_in_the_language_of_the_process() -> None:
    say = words("glassformer.cli.messages")
    assert spoken() == "zh"
    assert say("size bytes", n=3) == "3 字节"
    assert words("glassformer.errors").of("public domain") == "public domain"


def test_columns_of_wide_letters_line_up() -> None:
    assert padded("翻译", 6) == "翻译  "
    assert padded("run", 6) == "run   "


# --- errors ---

ERRORS: list[tuple[GlassformerError, str, str]] = [
    (
        UnknownNameError("model", "toi", ["toy", "imdb"]),
        "unknown model 'toi'; did you mean 'toy'?",
        "没有名为 'toi' 的模型；你是不是要找 'toy'？",
    ),
    (
        UnknownNameError("model", "model", ["toy"]),  # a name that is also one of our words
        "unknown model 'model'; there are toy",
        "没有名为 'model' 的模型；现有：toy",
    ),
    (
        UnknownNameError(Fragment.of("setting in {where}:", where="a.toml"), "b", ["c"]),
        "unknown setting in a.toml: 'b'; there are c",
        "没有名为 'b' 的设置（在 a.toml 中）；现有：c",
    ),
    (
        CheckpointError("cannot read {path}: {reason}", path="a", reason="Permission denied"),
        "cannot read a: Permission denied",
        "无法读取 a：没有权限",
    ),
    (
        DataError(
            "{path} has no column {column!r}, which --text-column and --label-column name{near}",
            path="a.csv",
            column="txt",
            near=did_you_mean("txt", ["text"]),
        ),
        "a.csv has no column 'txt', which --text-column and --label-column name; did you mean "
        "'text'?",
        "a.csv 没有 'txt' 列（列名由 --text-column 和 --label-column 指定）；你是不是要找 'text'？",
    ),
    (
        FormulaError(
            "expected numbers {where}, got {value}",
            2,
            where=Fragment.of("before {sign!r}", sign="+"),
            value=Fragment.of("one word"),
        ),
        "column 2: expected numbers before '+', got one word",
        "第 2 列：'+' 之前应为数，得到的是一个词",
    ),
    (
        GlassformerError("of another {kind}", kind="sort"),
        "of another sort",
        "失败：of another sort",
    ),
    (GlassformerError("a {brace} in a name"), "a {brace} in a name", "失败：a {brace} in a name"),
]


@pytest.mark.parametrize(("error", "english", "in_chinese"), ERRORS)
def test_an_error_can_be_said_in_chinese(
    error: GlassformerError, english: str, in_chinese: str
) -> None:
    assert str(error) == message_of(error) == english
    speak("zh")
    try:
        assert message_of(error) == in_chinese
    finally:
        speak("en")
    assert str(error) == english


@pytest.mark.usefixtures("chinese")
def test_an_error_inside_an_error_is_said_too() -> None:
    inner = GlassformerError("the text is empty: a model needs at least one token")
    outer = CheckpointError("{path}: {error}", path="x", error=inner)
    assert message_of(outer) == "x：文本是空的：模型至少需要一个词元"


def test_an_error_keeps_its_fields_across_processes() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(DataError("{path} is empty", path=Path("a"))))
    assert (str(error), error.template) == ("a is empty", "{path} is empty")
    assert error.fields == {"path": Path("a")}


def test_a_single_letter_suggests_no_longer_word() -> None:
    assert did_you_mean("foo.a", ["loop.accumulate", "loop.lr"]).startswith("; there are")
    assert did_you_mean("foo.acc", ["loop.accumulate", "loop.lr"]) == (
        "; did you mean 'loop.accumulate'?"
    )


# --- every error has Chinese ---

# Functions that a message, or a part of one, is given to: its place among their arguments.
TAKES_A_MESSAGE = {
    "Fragment.of": 0,
    "UnknownNameError": 0,
    "_damaged": 3,
    "_expect_list": 1,
    "_library_errors": 0,
    "_require": 1,
    "_unbounded": 1,
    "damaged": 0,
    "expect": 2,
    "os_errors_as": 1,
    "refused": 0,
}
TAKES_A_PART = {"read_object", "parse_object", "_check_is_token"}  # by keyword, such as what=


@cache
def classes() -> dict[str, ast.ClassDef]:
    nodes = (node for tree in trees().values() for node in ast.walk(tree))
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


@cache
def error_classes() -> set[str]:
    """The names of GlassformerError and of all classes below it."""
    found = {"GlassformerError"}
    while (
        more := {
            name
            for name, node in classes().items()
            if found & {ast.unparse(base) for base in node.bases}
        }
        - found
    ):
        found |= more
    return found


@cache
def takes_a_message() -> dict[str, int]:
    """`TAKES_A_MESSAGE`, and the classes of errors that do not write their message themselves."""
    found = {"error": 0}  # a parameter of several functions: the class to raise
    for name in error_classes():
        made = [part for part in classes()[name].body if getattr(part, "name", "") == "__init__"]
        given = [arg.arg for part in made for arg in ast.walk(part) if isinstance(arg, ast.arg)]
        if not made or {"message", "template"} & set(given):
            found[name] = 0
    return found | TAKES_A_MESSAGE


Names = Mapping[str, list[ast.expr]]


def assigned(tree: ast.Module) -> Names:
    """What a file assigns to each name, at its top and in its functions."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


@cache
def constants() -> Names:
    """The constants of all modules, which others import."""
    tops = (ast.Module(tree.body, []) for tree in trees().values())
    return {
        name: given for tree in tops for name, given in assigned(tree).items() if name.isupper()
    }


def texts_of(node: ast.expr, names: Names) -> list[str | None]:
    """The texts that an expression may be; None for one that only running it would tell."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=one, orelse=other):
            return texts_of(one, names) + texts_of(other, names)
        case ast.Name(id=name) if name in names or name in constants():
            given = names.get(name) or constants()[name]
            return [text for one in given for text in texts_of(one, names)]
        case ast.Dict(values=values):
            return [text for one in values for text in texts_of(one, names)]
        case ast.Subscript(value=ast.Name() as table):
            return texts_of(table, names)
        case ast.Call(func=ast.Attribute(value=ast.Name() as table, attr="get")):
            return texts_of(table, names)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="Fragment"), attr="of")):
            return []  # looked at by itself
    return [None]


def messages_in(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that are a message, or the constant part of one."""
    name = ast.unparse(call.func).removeprefix("self.")
    place = takes_a_message().get(name, len(call.args))
    yield from call.args[place : place + 1]
    if name in TAKES_A_PART | set(takes_a_message()):
        for given in call.keywords:
            if given.arg in _SENTENCES and isinstance(given.value, ast.Constant):
                yield given.value


def without_chinese(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each message that is not in errors.toml, or not a plain string."""
    known = words("glassformer.errors")
    names = assigned(tree)
    passed_on = {  # parameters of the functions that take a message: it is their caller's
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and function.name in {"__init__", "of", *takes_a_message(), *TAKES_A_PART}
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id in {arg.arg for arg in function.args.args}
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        for said in messages_in(call):
            if id(said) not in passed_on:
                for text in texts_of(said, names):
                    if text is None or text not in known:
                        yield said.lineno, text or ast.unparse(said)


def test_every_error_has_chinese() -> None:
    """A message is a template in errors.toml, and what varies in it is a field: no f-string."""
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line}: {text}"
        for file, tree in trees().items()
        for line, text in without_chinese(tree)
    ]
    assert not wrong, "without Chinese in errors.toml:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        'raise InputError("no such message")',
        'raise InputError(f"got {n} texts")',
        'raise InputError("got " + what)',
        'raise TraceTooLargeError("no such message", n=1)',
        'raise error("no such message" if n else "the work was cancelled")',
        'raise DataError("cannot read {path}: {reason}", path=path, reason="no such reason")',
        'raise UnknownNameError("no such thing", name, known)',
        'expect(model, nn.Module, "no such kind")',
        'near = Fragment.of("no such part")',
        'message = "no such message"\nraise InputError(message)',
    ],
)
def test_an_error_without_chinese_is_found(code: str) -> None:
    assert len(list(without_chinese(ast.parse(code)))) == 1


def test_languages_are_what_the_type_says() -> None:
    from typing import get_args

    assert [as_language(name) for name in get_args(Language)] == ["en", "zh"]
