"""The receiving side of a webhook, beside an independent implementation."""

import base64
import pickle
from datetime import datetime, timezone

import pytest
import standardwebhooks
import tidings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = b'{"n": 1.0, "big":9007199254740993}'
AT = 1_700_000_000


def signed(secret: str = SECRET, body: bytes = BODY, at: int = AT) -> dict[str, str]:
    """Headers made by PyPI's standardwebhooks."""
    moment = datetime.fromtimestamp(at, tz=timezone.utc)
    signature = standardwebhooks.Webhook(secret).sign("msg_1", moment, body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": signature}


def test_both_implementations_sign_the_same() -> None:
    assert tidings.Webhook(SECRET).sign(BODY, id="msg_1", timestamp=AT) == signed()


def test_a_good_webhook_passes() -> None:
    headers = signed()
    tidings.Webhook(SECRET).verify(BODY, headers, now=AT)
    tidings.Webhook(SECRET).verify(BODY, {name.title(): value for name, value in headers.items()}, now=AT + 300)
    tidings.Webhook(OTHER, SECRET).verify(BODY, headers, now=AT - 300)
    tidings.Webhook(SECRET.removeprefix("whsec_")).verify(BODY, headers, now=AT)


def test_now_is_the_wall_clock() -> None:
    webhook = tidings.Webhook(SECRET)
    webhook.verify(BODY, webhook.sign(BODY, id="msg_1"))


@pytest.mark.parametrize(
    ("code", "body", "headers", "now"),
    [
        ("mismatch", BODY + b" ", signed(), AT),
        ("mismatch", BODY, signed(OTHER), AT),
        ("mismatch", BODY, {**signed(), "webhook-id": "msg_2"}, AT),
        ("too_old", BODY, signed(), AT + 301),
        ("too_new", BODY, signed(), AT - 301),
        ("missing_header", BODY, {"webhook-id": "msg_1"}, AT),
        ("repeated_header", BODY, {**signed(), "Webhook-Id": "msg_1"}, AT),
        ("timestamp", BODY, {**signed(), "webhook-timestamp": "soon"}, AT),
        ("no_signature", BODY, {**signed(), "webhook-signature": "v9,x"}, AT),
    ],
)
def test_a_bad_webhook_is_refused(code: str, body: bytes, headers: dict[str, str], now: int) -> None:
    with pytest.raises(tidings.WebhookError) as caught:
        tidings.Webhook(SECRET).verify(body, headers, now=now)
    assert caught.value.code == code
    assert isinstance(caught.value, tidings.TidingsError)


def test_tolerance_is_the_callers() -> None:
    webhook = tidings.Webhook(SECRET)
    webhook.verify(BODY, signed(), now=AT + 1_000, tolerance=1_000)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(tidings.InvalidArgument, match="tolerance: "):
            webhook.verify(BODY, signed(), tolerance=bad)


@pytest.mark.parametrize("secrets", [(), ("whsec_short",), ("whsec_not base64!",)])
def test_a_bad_secret_is_refused_and_not_told(secrets: tuple[str, ...]) -> None:
    with pytest.raises(tidings.InvalidArgument, match="secrets: ") as caught:
        tidings.Webhook(*secrets)
    assert all(secret.removeprefix("whsec_") not in str(caught.value) for secret in secrets)
    assert repr(tidings.Webhook(SECRET)) == "Webhook(…)"


def test_errors_can_be_pickled() -> None:
    """As they are when they cross processes."""
    error = pickle.loads(pickle.dumps(tidings.WebhookError("mismatch", "text")))
    assert (error.code, str(error)) == ("mismatch", "text")
    config = pickle.loads(pickle.dumps(tidings.ConfigError("text", [tidings.Fault("/a", "b", "c")], 1, "{}")))
    assert (str(config), config.faults, config.total) == ("text", [tidings.Fault("/a", "b", "c")], 1)
