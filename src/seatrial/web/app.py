"""The application: routes, guard, and what lives as long as the server."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from seatrial.errors import SeatrialError
from seatrial.reports.pages.environment import style_sheet
from seatrial.store.opening import open_store
from seatrial.version import __version__

from . import api_changing, api_reading, page_actions, page_compare, page_run, page_runs, page_scenario, page_trial
from .access import Access
from .app_state import Desk
from .middleware import Guard
from .options import ServeOptions
from .rendering import STATIC, environment
from .responses import explain_problems
from .run_processes import Launcher
from .schemas import shared_schemas

_WARM_SECONDS = 3.0
"""So long the server may take to get ready; what is not decided by then is decided while it answers."""
ROUTERS = (
    api_reading.router,
    api_changing.router,
    page_runs.router,
    page_run.router,
    page_scenario.router,
    page_trial.router,
    page_compare.router,
    page_actions.router,
)


def make_app(options: ServeOptions) -> FastAPI:
    """The server as an ASGI application. Raises UsageError where the options are not safe."""
    options.check()
    app = FastAPI(
        title="Seatrial",
        version=__version__,
        description="Runs of AI agents: what was asked, what was said, what was decided.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        lifespan=_open,
    )
    app.state.options = options
    app.state.access = Access(options)
    explain_problems(app)
    app.add_api_route("/static/style.css", _show_style, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(Guard, access=app.state.access)
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _open(app: FastAPI) -> AsyncIterator[None]:
    options: ServeOptions = app.state.options
    with open_store(options.store) as store:
        desk = Desk(options=options, store=store, launcher=Launcher(options, os.environ))
        app.state.desk = desk
        environment()
        warming = Thread(target=_warm, args=(desk,), name="seatrial-warm", daemon=True)
        warming.start()
        await asyncio.to_thread(warming.join, _WARM_SECONDS)
        # Ten thousand trials that are kept are no garbage: looking through them would hold up a page for a while.
        gc.collect()
        gc.freeze()
        try:
            yield
        finally:
            desk.close()


def _warm(desk: Desk) -> None:
    """Decide the runs of the first page before anybody asks."""
    try:
        desk.runs.warm(page_runs.newest_rows(desk))
    except (SeatrialError, CancelledError, RuntimeError):
        return  # the server ends, or whoever asks for the run will be told


def _show_style() -> Response:
    return Response(style_sheet(), media_type="text/css")


def _describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        document["components"]["schemas"] |= shared_schemas()
        if app.state.access.needs_token:
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
