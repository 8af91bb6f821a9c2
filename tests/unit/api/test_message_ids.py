from uuid import RFC_4122, UUID

from app.api.publish.message_ids import MessageIds


def test_ids_are_random_uuids_in_their_usual_form() -> None:
    ids = MessageIds()
    for _ in range(1_000):
        text = ids.new().decode()
        made = UUID(text)
        assert (str(made), made.version, made.variant) == (text, 4, RFC_4122)


def test_no_id_is_given_twice() -> None:
    one, other = MessageIds(), MessageIds()
    assert len({source.new() for source in (one, other) for _ in range(1_000)}) == 2_000
