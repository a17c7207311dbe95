"""The lessons that “What is this?” leads to."""

from glassformer.documents.step_meaning import LESSONS_ON
from tests.lessons.shared_lessons import lesson


def test_every_lesson_named_for_a_role_has_that_step() -> None:
    called = {"hidden": "feed-forward", "activated": "feed-forward", "contracted": "feed-forward",
              "residual": "sum", "total": "pooled"}  # fmt: skip
    for role, (name, place) in LESSONS_ON.items():
        assert lesson(name).steps[place - 1].role == called.get(role, role)
