import pytest

from app.domain.answer_excerpt import EXCERPT_MAX, answer_excerpt


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", ""),
        (b'{"error": "no stock"}', '{"error": "no stock"}'),
        (b"one\r\n\ttwo\n", "one\n\ttwo\n"),
        (b"\x1b[31mred\x00\x7f", "\\u001b[31mred\\u0000\\u007f"),
        ("\x85é".encode(), "\\u0085é"),
        (b"\x1f\x8b\x08\x00compressed", ""),
        ("é".encode("latin-1"), ""),
        (b"x" * EXCERPT_MAX, "x" * EXCERPT_MAX),
        (b"x" * (EXCERPT_MAX + 1), "x" * EXCERPT_MAX),
        (b"x" + "é".encode() * 300, "x" + "é" * 255),
        (b"x\0" * 300, ("x\\u0000" * 74)[:EXCERPT_MAX]),
    ],
)
def test_the_start_of_a_text_is_kept_and_nothing_of_other_bodies(body: bytes, shown: str) -> None:
    assert answer_excerpt(body) == shown
