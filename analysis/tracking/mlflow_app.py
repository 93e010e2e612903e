"""Serve MLflow's own UI in its model-training mode, and without its notice about telemetry.

MLflow 3.17 keeps both in the browser: its mode is GenAI until somebody switches it, whatever an
experiment's kind, and its notice appears even where telemetry is off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

# What a browser that has not chosen otherwise remembers.
CHOICES = {
    "mlflow.workflowType_v1": '"machine_learning"',
    "mlflow.settings.telemetry.enabled_v1": "false",
    "mlflow.telemetry.info.alert.dismissed_v1": "true",
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true",  # its chat would cover a third
}
SCRIPT = "<script>{}</script>".format(
    "".join(f"localStorage['{key}'] ??= '{value}';" for key, value in CHOICES.items())
).encode()


def with_choices(mlflow: App) -> App:
    """Return MLflow's app with a script in its page that makes these choices first."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/":
            await mlflow(scope, receive, send)
            return
        start: Message = {}
        body = b""

        async def gather(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            page = body.replace(b"<head>", b"<head>" + SCRIPT, 1)
            headers = [
                (name, value)
                for name, value in start["headers"]
                if name.lower() not in (b"content-length", b"etag")
            ]
            length = (b"content-length", str(len(page)).encode())
            await send({**start, "headers": [*headers, length]})
            await send({"type": "http.response.body", "body": page})

        await mlflow(scope, receive, gather)

    return app


def create() -> App:
    """Return the app that `mlflow server --app-name fairtrial` serves."""
    from mlflow.server.fastapi_app import app

    return with_choices(app)
