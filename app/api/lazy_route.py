"""Routes that FastAPI analyses when they are first used, because most routes are seldom used."""

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import compile_path


class LazyRoute(APIRoute):
    """A route that has only its path and methods until it is called, or described in a document.

    Then FastAPI reads the signatures of the endpoint and its dependencies, and builds a validator
    for each parameter. For all routes, that would take a tenth of the CPU time of a start.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: set[str] | list[str] | None = None,
        **options: Any,  # noqa: ANN401 - the options of FastAPI's route
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.methods = {method.upper() for method in methods or ("GET",)}
        # The name of the operation is the name of the function. FastAPI would add the path and the
        # method to the name.
        options["operation_id"] = options.get("operation_id") or endpoint.__name__
        self.dependencies = list(options.get("dependencies") or ())
        self._options: dict[str, Any] | None = {**options, "methods": methods}

    @property
    def is_analysed(self) -> bool:
        """Whether FastAPI has analysed the route."""
        return self._options is None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of FastAPI's route
        """Analyse the route, if somebody reads an attribute that exists only after the analysis."""
        options = vars(self).get("_options")
        if options is None:
            raise AttributeError(f"a route has no {name}")
        self._options = None
        super().__init__(self.path, self.endpoint, **options)
        return getattr(self, name)
