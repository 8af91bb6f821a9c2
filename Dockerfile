# One image for every process: `docker run angelia api`, `… worker`, `… migrate`; and one with Java
# and PySpark for `… spark`: `docker build --target spark`.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/angelia
ENV PATH=/opt/angelia/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# The dependencies first: they change less often than the code, and so does their layer.
COPY requirements.lock ./
RUN pip install --require-hashes --no-deps --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY angelia_client angelia_client
COPY app app
COPY workers workers
COPY spark spark
COPY migrations migrations
RUN pip install --no-deps .

FROM python:3.11-slim-bookworm AS build-pyspark
WORKDIR /build
RUN python -m venv /opt/angelia
ENV PATH=/opt/angelia/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements-spark.lock ./
RUN pip install --require-hashes --no-deps --requirement requirements-spark.lock

FROM python:3.11-slim-bookworm AS runtime
ENV PATH=/opt/angelia/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/angelia angelia
USER angelia
WORKDIR /var/lib/angelia
# Whether the database and the log that it is configured for answer.
HEALTHCHECK --interval=30s --timeout=15s --start-period=20s CMD ["angelia", "check"]
ENTRYPOINT ["angelia"]

FROM runtime AS spark
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-pyspark /opt/angelia /opt/angelia
COPY --from=build /opt/angelia /opt/angelia
# A volume for results that is mounted here can be written to.
RUN install --directory --owner=angelia /var/lib/angelia/results
USER angelia
CMD ["spark"]

# The last stage is what is built when none is named.
FROM runtime AS service
COPY --from=build /opt/angelia /opt/angelia
EXPOSE 8090
CMD ["api"]
