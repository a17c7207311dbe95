"""Lines of Chinese end anywhere but before closing punctuation and after opening punctuation."""

from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from glassformer.language import Prose, broken_lines

SAID = "下面的每个数都由 Glassformer 的模块实际计算并记录；矩阵中带框的数，就是写出算式的那一个。"


def shown(prose: Prose, width: int) -> list[str]:
    """What a terminal of that width shows."""
    text = StringIO()
    Console(file=text, width=width, no_color=True).print(prose)
    return text.getvalue().splitlines()


def test_a_chinese_line_is_filled_instead_of_ending_at_the_latin_word() -> None:
    lines = shown(Prose(SAID), 40)
    assert lines[0] == "下面的每个数都由 Glassformer 的模块实际"
    assert all(cell_len(line) > 34 for line in lines[:-1])
    assert "".join(lines).replace(" ", "") == SAID.replace(" ", "")


def test_english_is_broken_by_rich() -> None:
    assert shown(Prose("one two three four five"), 10) == ["one two ", "three four", "five"]


@given(
    st.text("中文字，。“”（）《》 abW_Q12、\n", max_size=120),
    st.integers(min_value=12, max_value=40),
)
def test_nothing_is_lost_and_no_line_is_too_wide(text: str, width: int) -> None:
    assert "".join(shown(Prose(text), width)).replace(" ", "") == "".join(text.split())
    assert all(cell_len(line) <= width for line in shown(Prose(text), width))


def test_punctuation_stays_with_its_word() -> None:
    for width in range(12, 40):
        lines = list(broken_lines(SAID + "向量“提问”（见《论文》）：乘以 W_Q、W_K。", width))
        assert not any(line[0] in "，。、；：）》”" for line in lines)
        assert not any(line[-1] in "（《“" for line in lines)
