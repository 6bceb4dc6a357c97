"""Methods for users and rights: masters have them, and the embedded server.

    client                                     server
      BeginLogin  user, SCRAM's first  ──────►   the verifier of the user, or one that fits no password
      FinishLogin the same, and its proof ───►   a token, which each server of the cluster accepts
      MakeTaskToken  with that token  ───────►   a token for processes that work for the client, which lives longer

Between the two the server keeps nothing: what it needs is in the reply, signed, so that another leading master can
finish what one has begun.
"""

from __future__ import annotations

from typing import Any

from .methods import Call, Done, Reply, Request


class ChangeAccess(Request, frozen=True, tag="change_access"):
    """`Store.change_access`. `steps`: `access_plain.access_step_to_plain`."""

    reply = Done
    steps: tuple[dict[str, Any], ...]
    call: Call


class LoginChallenge(Reply, frozen=True):
    """SCRAM's first message of the server, and the signed state of the exchange, for `FinishLogin`."""

    message: str
    state: bytes


class BeginLogin(Request, frozen=True, tag="begin_login"):
    """Begins a login. `message`: SCRAM-SHA-256's first message of the client (RFC 5802), without channel binding."""

    reply = LoginChallenge
    is_small = True
    user: str
    message: str


class LoginReply(Reply, frozen=True):
    """SCRAM's last message, by which the server proves itself; the token (`model.access.tokens`), and the seconds for
    which it is valid."""

    message: str
    token: bytes
    seconds: float


class FinishLogin(Request, frozen=True, tag="finish_login"):
    """Ends a login: fields of `BeginLogin`, the `state` of its reply, and SCRAM's last message of the client."""

    reply = LoginReply
    is_small = True
    user: str
    message: str
    state: bytes
    proof: str


class TaskTokenReply(Reply, frozen=True):
    """A token for tasks, and the seconds for which it is valid."""

    token: bytes
    seconds: float


class MakeTaskToken(Request, frozen=True, tag="make_task_token"):
    """Makes a token of the caller's user for its tasks. `seconds`: for which it is needed; servers may give it less.
    The caller has logged in itself: a token for tasks makes no other."""

    reply = TaskTokenReply
    is_small = True
    seconds: float


class SetRights(Request, frozen=True, tag="set_rights"):
    """Users, grants and keys as the leading master has them (`security.users.rights_to_plain`): from now on a tablet
    server checks by them. One that has newer ones keeps those."""

    reply = Done
    rights: dict[str, Any]
