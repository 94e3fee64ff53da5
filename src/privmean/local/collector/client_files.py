"""The browser client: a page that reports one value, and the JavaScript package behind it.

The folder `client` is clients/js/src of the source tree. All of it is public and the same for
everybody; the value stays in the browser.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import PurePath

from fastapi import FastAPI, HTTPException, Response

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)


def client_files() -> dict[str, bytes]:
    """What is served, by name."""
    folder = files("privmean.local.collector") / "client"
    return {
        item.name: item.read_bytes()
        for item in folder.iterdir()
        if PurePath(item.name).suffix in TYPES
    }


def add_client(app: FastAPI) -> None:
    """Register `/client/` and the files beside it."""
    parts = client_files()

    async def part(name: str) -> Response:
        if name not in parts:
            raise HTTPException(404, "no such file")
        return Response(
            parts[name],
            media_type=f"{TYPES[PurePath(name).suffix]}; charset=utf-8",
            headers={"Content-Security-Policy": POLICY},
        )

    async def page() -> Response:
        return await part("index.html")

    app.add_api_route("/client/", page)
    app.add_api_route("/client/{name}", part)
