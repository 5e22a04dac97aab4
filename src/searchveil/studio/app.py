"""The application: its addresses, and how it says no."""

from collections.abc import Callable
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from searchveil.errors import InputError, SearchveilError
from searchveil.studio.guard import ENTRY, HEADERS, Door, Guard
from searchveil.studio.pages import home, results, steps
from searchveil.studio.show import refused
from searchveil.studio.state import Studio

GET, POST = ["GET"], ["POST"]
ROUTES = (
    Route("/", home.home, methods=GET),
    Route(ENTRY, home.enter, methods=GET),
    Route("/language", home.language, methods=POST),
    Route("/drafts", steps.new, methods=POST),
    Route("/drafts/{draft}/expected", steps.expect, methods=GET),
    Route("/drafts/{draft}/chart", steps.chart, methods=GET),
    Route("/drafts/{draft}/private", steps.ask_private, methods=POST),
    Route("/drafts/{draft}/private/{kind}", steps.private_page, methods=GET),
    Route("/drafts/{draft}/release", steps.release, methods=POST),
    Route("/drafts/{draft}/{step}", steps.show, methods=GET),
    Route("/drafts/{draft}/{step}", steps.save, methods=POST),
    Route("/runs/{run}", results.run, methods=GET),
    Route("/runs/{run}/cancel", results.cancel, methods=POST),
    Route("/results", results.result, methods=GET),
    Route("/results/zip", results.download, methods=GET),
    Route("/results/evaluate", results.evaluate, methods=POST),
    Route("/results/report", results.report, methods=GET),
    Route("/compare", results.compare, methods=GET),
    Route("/series", results.series, methods=GET),
)


def application(
    studio: Studio, door: Door, hosts: frozenset[str], cookie: str, entered: Callable[[], None] = lambda: None
) -> Starlette:
    """`entered` is called when a link was used up, and there is a new one."""
    static = Mount("/static", StaticFiles(directory=str(files(__package__).joinpath("static"))))

    def no(request: Request, error: Exception) -> Response:
        assert isinstance(error, SearchveilError)
        return refused(request, error)

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refused(request, InputError(str(error.detail)), error.status_code)

    def failed(request: Request, error: Exception) -> Response:
        """What nobody foresaw: the terminal has it, the page does not. The guard's headers are set outside of it."""
        reason = error.strerror if isinstance(error, OSError) else None
        said = InputError(f"this failed: {reason or type(error).__name__}; the terminal of the studio says where")
        answer = refused(request, said, 500)
        answer.headers.update(HEADERS)
        return answer

    app = Starlette(
        routes=[*ROUTES, static],
        exception_handlers={SearchveilError: no, HTTPException: http, Exception: failed},
        middleware=[Middleware(Guard, door=door, hosts=hosts, cookie=cookie)],
    )
    app.state.studio, app.state.door, app.state.cookie, app.state.entered = studio, door, cookie, entered
    return app
