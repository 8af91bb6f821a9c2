import httpx

from tests.fakes.memory_log import MemoryLog


async def test_refuses_with_429_what_is_over_the_quota_of_a_topic(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    (await api.put(f"/topics/{topic}", json={"throughputQuota": 1024})).raise_for_status()
    assert (await api.get(f"/topics/{topic}")).json()["throughputQuota"] == 1024
    # How many fit depends on how slow this machine is; all of them never do.
    answers = [await api.post(f"/topics/{topic}", content=b"1".ljust(1000)) for _ in range(2)]
    if answers[1].status_code == 201:
        answers.append(await api.post(f"/topics/{topic}", content=b"1".ljust(1000)))
    refused = answers[-1]
    assert (refused.status_code, refused.json()["code"]) == (429, "THROUGHPUT_QUOTA_VIOLATION")
    assert refused.headers["Retry-After"] == "1"
    assert "Hermes-Message-Id" in refused.headers
    batch = await api.post(f"/topics/{topic}/batch", json=["x" * 1000])
    assert (batch.status_code, batch.json()["code"]) == (429, "THROUGHPUT_QUOTA_VIOLATION")
    assert len(log.records(topic)) == len(answers) - 1


async def test_a_quota_out_of_range_is_refused(api: httpx.AsyncClient, topic: str) -> None:
    refused = await api.put(f"/topics/{topic}", json={"throughputQuota": 1})
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "throughputQuota")
