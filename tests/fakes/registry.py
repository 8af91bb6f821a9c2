"""A schema registry with the part of Confluent's REST API that Angelia uses.

It can also misbehave.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

GONE = {"error_code": 40401, "message": "Subject not found."}


@dataclass(slots=True)
class FakeRegistry:
    """A registry in memory.

    Attributes:
        subjects: The versions of each subject, by version number. (In a registry, a subject is a
            list of versions of one schema.)
        answer: The answer to every request, if set.
        requests: The method, the path and the header `Authorization` of each request so far.
    """

    subjects: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    answer: Response | None = None
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)

    def put(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Add a version to a subject, as another client would; return the version's number."""
        versions = self.subjects.setdefault(subject, {})
        for version, known in versions.items():
            if known["schema"] == text:
                return version
        version = max(versions, default=0) + 1
        versions[version] = {
            "subject": subject,
            "version": version,
            "id": 1000 + sum(map(len, self.subjects.values())),
            "schema": text,
            "schemaType": kind,
        }
        return version

    def app(self) -> Starlette:
        """Return the registry as an ASGI application."""
        return Starlette(
            routes=[
                Route("/subjects/{subject}/versions", self._register, methods=["POST"]),
                Route("/subjects/{subject}/versions", self._versions, methods=["GET"]),
                Route("/subjects/{subject}/versions/{version}", self._version),
                Route(
                    "/compatibility/subjects/{subject}/versions/latest",
                    self._compatible,
                    methods=["POST"],
                ),
                Route("/subjects/{subject}", self._look_up, methods=["POST"]),
                Route("/subjects/{subject}", self._delete, methods=["DELETE"]),
            ]
        )

    async def _register(self, request: Request) -> Response:
        asked = await self._asked(request)
        if self.answer is not None:
            return self.answer
        name = request.path_params["subject"]
        version = self.put(name, asked["schema"], asked.get("schemaType", "AVRO"))
        return JSONResponse({"id": self.subjects[name][version]["id"]})

    async def _compatible(self, request: Request) -> Response:
        await self._asked(request)
        known = request.path_params["subject"] in self.subjects
        fits = JSONResponse({"is_compatible": True}) if known else JSONResponse(GONE, 404)
        return self.answer or fits

    async def _look_up(self, request: Request) -> Response:
        asked = await self._asked(request)
        found = self.subjects.get(request.path_params["subject"], {}).values()
        one = next((each for each in found if each["schema"] == asked["schema"]), None)
        return self.answer or (JSONResponse(one) if one else JSONResponse(GONE, 404))

    async def _versions(self, request: Request) -> Response:
        await self._asked(request)
        found = self.subjects.get(request.path_params["subject"])
        return self.answer or (JSONResponse(list(found)) if found else JSONResponse(GONE, 404))

    async def _version(self, request: Request) -> Response:
        await self._asked(request)
        versions = self.subjects.get(request.path_params["subject"], {})
        asked = request.path_params["version"]
        number = max(versions, default=0) if asked == "latest" else int(asked)
        found = versions.get(number)
        return self.answer or (JSONResponse(found) if found else JSONResponse(GONE, 404))

    async def _delete(self, request: Request) -> Response:
        await self._asked(request)
        gone = self.subjects.pop(request.path_params["subject"], None)
        return self.answer or (JSONResponse(list(gone)) if gone else JSONResponse(GONE, 404))

    async def _asked(self, request: Request) -> dict[str, Any]:
        raw = await request.body()
        said = request.headers.get("authorization")
        self.requests.append((request.method, request.url.path, said))
        asked: dict[str, Any] = orjson.loads(raw) if raw else {}
        return asked
