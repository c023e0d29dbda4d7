"""Frames between the library and its workers: four bytes of length, then JSON in UTF-8. No pickles on this road."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_HEADER = struct.Struct("!I")
#: Far above any kernel's text; a length beyond it means that the stream is out of step.
MAX_FRAME_BYTES = 1 << 30


class Disconnected(Exception):
    """The other end is gone, or what it sent can't be a frame."""


def send_frame(sock: socket.socket, message: dict[str, Any]) -> None:
    """Send one message; raises `Disconnected` when the peer is gone."""
    body = json.dumps(message, separators=(",", ":")).encode()
    try:
        sock.sendall(_HEADER.pack(len(body)) + body)
    except (BrokenPipeError, ConnectionError) as err:
        raise Disconnected(str(err)) from err


def recv_frame(sock: socket.socket) -> dict[str, Any]:
    """Receive one message; honours the socket's timeout (TimeoutError); raises `Disconnected` at end of stream."""
    (length,) = _HEADER.unpack(_recv_exactly(sock, _HEADER.size))
    if length > MAX_FRAME_BYTES:
        raise Disconnected(f"frame of {length} bytes")
    message = json.loads(_recv_exactly(sock, length))
    if not isinstance(message, dict):
        raise Disconnected(f"a {type(message).__name__} where a message was due")
    return message


def _recv_exactly(sock: socket.socket, length: int) -> bytearray:
    buffer = bytearray(length)
    view = memoryview(buffer)
    done = 0
    while done < length:
        try:
            count = sock.recv_into(view[done:])
        except ConnectionError as err:
            raise Disconnected(str(err)) from err
        if count == 0:
            raise Disconnected("end of stream")
        done += count
    return buffer
