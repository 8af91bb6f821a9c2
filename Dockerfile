# One image for every process: `docker run angelia api`, `… worker`, `… migrate`.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/angelia
ENV PATH=/opt/angelia/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# The dependencies first: they change less often than the code, and so does their layer.
COPY requirements.lock ./
RUN pip install --require-hashes --no-deps --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY workers workers
COPY migrations migrations
RUN pip install --no-deps .

FROM python:3.11-slim-bookworm
COPY --from=build /opt/angelia /opt/angelia
ENV PATH=/opt/angelia/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/angelia angelia
USER angelia
WORKDIR /var/lib/angelia
EXPOSE 8090
# Whether the database and the log that it is configured for answer.
HEALTHCHECK --interval=30s --timeout=15s --start-period=20s CMD ["angelia", "check"]
ENTRYPOINT ["angelia"]
CMD ["api"]
