"""MLflow's page begins in model-training mode; everything else passes through unchanged."""

from __future__ import annotations

import asyncio
from importlib.metadata import entry_points

from analysis.tracking.mlflow_app import CHOICES, Message, Receive, Send, create, with_choices

PAGE = b"<!doctype html><html><head><title>MLflow</title></head></html>"


async def mlflow(scope: Message, receive: Receive, send: Send) -> None:
    headers = [(b"content-length", str(len(PAGE)).encode()), (b"etag", b"x"), (b"a", b"b")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE[:20], "more_body": True})
    await send({"type": "http.response.body", "body": PAGE[20:]})


def answer(path: str) -> tuple[dict[bytes, bytes], bytes]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {}

    asyncio.run(with_choices(mlflow)({"type": "http", "path": path}, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return dict(sent[0]["headers"]), body


def test_the_page_makes_the_choices_before_mlflow_reads_them() -> None:
    headers, body = answer("/")
    head, _, rest = body.partition(b"</script>")
    assert head.startswith(b"<!doctype html><html><head><script>")
    for key, value in CHOICES.items():
        assert f"localStorage['{key}'] ??= '{value}';".encode() in head
    assert rest == PAGE.partition(b"<head>")[2]
    assert headers == {b"a": b"b", b"content-length": str(len(body)).encode()}


def test_every_other_answer_is_as_mlflow_gives_it() -> None:
    headers, body = answer("/ajax-api/2.0/mlflow/runs/search")
    assert body == PAGE
    assert headers[b"etag"] == b"x"


def test_mlflow_finds_the_app_by_its_name() -> None:
    (found,) = entry_points(group="mlflow.app", name="fairtrial")
    assert found.load() is create
