"""Frames: whatever way the bytes are cut, the messages come whole and in order."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sgl_core.engine.frames import FrameReader, FrameWriter


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(1, 50), min_size=1))
def test_any_cut_gives_the_messages_back(messages, cuts):
    writer, reader = FrameWriter(), FrameReader()
    stream = b"".join(bytes(writer.frame(message)) for message in messages)
    found, at, turn = [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        found += [msgspec.msgpack.decode(frame) for frame in reader.feed(stream[at : at + size])]
        at, turn = at + size, turn + 1
    assert found == messages
