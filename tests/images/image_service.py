"""What `make test-image` proves: the images are complete, and run as Kubernetes wants them."""

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.fakes.keys import KEY
from tests.fakes.subscriber import Subscriber
from tests.images.composed import PATIENCE_S, Composed
from tests.servers.debian_postgres import USER, DebianPostgres
from tests.servers.images import Image, built
from tests.servers.kafka import SharedBroker
from tests.servers.ports import free_port
from tests.servers.postgres import database_on
from tests.servers.spark_kafka import jars

# Building takes minutes.
pytestmark = pytest.mark.timeout(3600)
TOPIC = "shop.orders"
HOME, TMP = "/var/lib/angelia", "/tmp"  # noqa: S108 - of containers
MASTER = ("spark-class", "org.apache.spark.deploy.master.Master")
WORKER = ("spark-class", "org.apache.spark.deploy.worker.Worker")


@pytest.fixture(scope="module")
def images() -> Iterator[Mapping[str, Image]]:
    with built() as images:
        yield images


@pytest.fixture
def database_url(debian_postgres: DebianPostgres) -> Iterator[str]:
    """A database without tables, on a server with TLS and passwords."""
    with database_on(debian_postgres.admin_url, template="template1", owner=USER) as url:
        yield debian_postgres.url(urlsplit(url).path[1:], sslmode="require")


@pytest.fixture
def composed(
    images: Mapping[str, Image],
    database_url: str,
    kafka_broker: SharedBroker,
    kafka_namespace: str,
    tmp_path: Path,
) -> Composed:
    """The service of docker-compose.yml on servers of the test."""
    results = tmp_path / "results"
    results.mkdir()
    shutil.chown(results, int(images["spark"].user))
    connectors = {f"{TMP}/jars": jars()[0].parent}
    volumes = {"service": connectors, "spark": connectors | {f"{HOME}/results": results}}
    return Composed(
        images={name: replace(each, volumes=volumes[name]) for name, each in images.items()},
        settings={
            "ANGELIA_DATABASE_URL": database_url,
            "ANGELIA_KAFKA_BOOTSTRAP": kafka_broker.bootstrap,
            "ANGELIA_NAMESPACE": kafka_namespace,
            "ANGELIA_SECRET_KEY": KEY,
            "ANGELIA_SPARK_JARS": f"{TMP}/jars",
            "ANGELIA_ALLOW_PRIVATE_ENDPOINTS": "127.0.0.0/8",
        },
        logs=tmp_path,
    )


def test_the_images_run_without_rights_on_a_root_that_nobody_writes_to(
    images: Mapping[str, Image], composed: Composed
) -> None:
    for service in ("api", "spark"):
        assert composed.run(service, "id", "-u", "-r") == "10001\n"
        refused = "! touch /opt/angelia/x && ! touch $HOME/x"
        assert composed.run(service, "sh", "-c", refused).count("Read-only file system") == 2
    for target, image in images.items():
        print(f"{target}: {image.size // 10**6} MB;", *_lines(image.parts()))  # noqa: T201 - what was measured


def _lines(parts: Mapping[str, int]) -> list[str]:
    return [f"{name} {size} MB," for name, size in parts.items() if size]


async def test_a_message_passes_through_the_services_of_compose(composed: Composed) -> None:
    composed.run("migrate", *composed.images["service"].command("migrate"))
    key = composed.angelia("keys", "create", "test", "--scope", "admin", "--json")
    composed.settings["ANGELIA_API_KEY"] = json.loads(key)["key"]
    async with Subscriber() as subscriber:
        with composed.started("api"), composed.started("worker"):
            for service in ("api", "worker"):
                await asyncio.to_thread(composed.wait_until_healthy, service)
            composed.angelia("topic", "create", TOPIC)
            composed.angelia("subscription", "create", TOPIC, "billing", subscriber.url)
            composed.angelia("publish", TOPIC, '{"order": 1}')
            (received,) = await subscriber.wait_for(1, PATIENCE_S)
            assert json.loads(received.body) == {"order": 1}
            composed.run("api", *composed.images["service"].health_check)


def test_a_job_runs_with_the_image_of_spark_as_driver_and_as_executor(composed: Composed) -> None:
    composed.run("migrate", *composed.images["service"].command("migrate"))
    composed.settings["ANGELIA_AUTH"] = "off"
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    composed.settings.update(SPARK_LOCAL_IP="127.0.0.1", ANGELIA_SPARK_MASTER=master)
    at = ("--host", "127.0.0.1", "--webui-port", "0")
    with (
        composed.started("api"),
        composed.started("spark", *MASTER, *at, "--port", str(port)),
        composed.started("spark", *WORKER, *at, "--work-dir", f"{TMP}/work", master),
        composed.started("spark"),
    ):
        composed.wait_until_healthy("api")
        composed.angelia("jobs", "request", "UNDELIVERED_ANALYTICS", "--wait")
