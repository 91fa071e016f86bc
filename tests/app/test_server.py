"""The running server: its API, what it refuses, and many requests at once."""

from __future__ import annotations

import base64
import gc
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from web_samples import LIMITS, data_url, make_service, png, scene

from rationales.app.web.request_guard import RequestGuard, is_closed
from rationales.app.web.server import background_server, bound_socket, password_check
from rationales.errors import OptionError

TEXT = "A dull and careless film, but the cast is good."
LONG = "A dull and careless film, but the cast is good. " * 40


def call(address, name, *values, timeout=60.0):
    """(status, answer) of an endpoint, as curl would ask for it."""
    base = f"{address}gradio_api/call/{name}"
    with httpx.Client(timeout=timeout, trust_env=False) as client:
        joined = client.post(base, json={"data": list(values)})
        if joined.status_code != 200:
            return joined.status_code, joined.text
        text = client.get(f"{base}/{joined.json()['event_id']}").text
    kind, _, data = text.strip().rsplit("event: ", 1)[1].partition("\n")
    content = json.loads(data.removeprefix("data: "))
    return kind, content


def explain_values(text=TEXT, methods=("saliency",), steps=0, upload="", model="embedded"):
    return (model, text, list(methods), "", upload, "", 0, steps)


def test_the_python_client_explains_edits_and_explains_a_table(server):
    from gradio_client import Client

    client = Client(server[0], verbose=False)
    result = client.predict(text=TEXT, methods=["saliency", "occlusion"], api_name="/explain")
    assert result["methods"] == ["saliency", "occlusion"]
    first = result["results"][0]
    assert first["probabilities"]["full"].keys() == {"negative", "positive"}
    edited = client.predict(text=TEXT, removed=[1], api_name="/probabilities")
    assert edited["units"][1] == "dull"
    assert edited["full"] == pytest.approx(first["probabilities"]["full"], abs=1e-5)
    assert edited["edited"] != edited["full"]
    table = base64.b64encode(b"text\nA good film.\nA bad film.\n").decode()
    rows = client.predict(table=table, method="saliency", api_name="/batch")
    assert [row["text"] for row in rows] == ["A good film.", "A bad film."]
    image = base64.b64encode(png(scene())).decode()
    cells = client.predict(model="red", upload=image, removed=[0], api_name="/probabilities")["cells"]
    assert cells == [16, 24]


def test_the_api_offers_three_endpoints_and_no_more(server):
    info = httpx.get(f"{server[0]}gradio_api/info", trust_env=False).json()
    assert set(info["named_endpoints"]) == {"/explain", "/probabilities", "/batch"}
    assert info["unnamed_endpoints"] == {}


def test_a_mistake_is_answered_with_its_reason(server):
    address, _ = server
    for values in (explain_values(model="../../etc/passwd"), explain_values(methods=["none"]), explain_values(text="")):
        kind, content = call(address, "explain", *values)
        assert kind == "error"
        assert "Traceback" not in json.dumps(content)


@pytest.mark.parametrize(
    "path",
    [
        "file=/etc/passwd",
        "file=../../../../etc/passwd",
        "file=http://127.0.0.1/",
        "file/etc/passwd",
        "proxy=http://127.0.0.1/",
        "upload",
        "upload_progress?upload_id=1",
        "stream/a/b/1/playlist.m3u8",
        "component_server",
        "deep_link?session_hash=a",
        "custom_component/a/b/c/d",
        "run-history/records",
        "%66ile=/etc/passwd",
    ],
)
def test_nothing_can_be_read_from_or_written_to_the_disk(server, path):
    for method in ("GET", "POST"):
        answer = httpx.request(method, f"{server[0]}gradio_api/{path}", trust_env=False)
        assert answer.status_code in (403, 404), path  # 404 where the client resolves the dots
        assert "root:" not in answer.text


def test_other_paths_do_not_leave_the_package(server):
    for path in ("static/../../../../etc/passwd", "static/%2e%2e/%2e%2e/etc/passwd", "assets/..%2f..%2fetc%2fpasswd"):
        answer = httpx.get(f"{server[0]}{path}", trust_env=False)
        assert answer.status_code >= 400
        assert "root:" not in answer.text


def test_a_file_in_place_of_a_text_is_not_opened(server, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret", encoding="utf-8")
    file = {"path": str(secret), "meta": {"_type": "gradio.FileData"}}
    for values in (explain_values(text=file), explain_values(model="red", upload=file)):
        _, content = call(server[0], "explain", *values)
        assert "the secret" not in json.dumps(content)


def test_a_request_that_is_too_large_is_refused(server):
    address, served = server
    body = b"x" * (served.limits.request_bytes + 1)
    answer = httpx.post(f"{address}gradio_api/call/explain", content=body, trust_env=False)
    assert answer.status_code == 413
    large = "A" * (2 * LIMITS.upload_bytes)
    assert call(address, "explain", *explain_values(model="red", upload=large))[0] in ("error", 413)


def test_a_body_that_is_longer_than_declared_is_cut_off():
    received = []

    async def app(_scope, receive, _send):
        while True:
            message = await receive()
            received.append(message["type"])
            if message["type"] == "http.disconnect":
                return

    async def receive():
        return {"type": "http.request", "body": b"x" * 60, "more_body": True}

    async def send(_message):
        pass

    import asyncio

    scope = {"type": "http", "path": "/gradio_api/call/explain", "headers": []}
    asyncio.run(RequestGuard(app, 100)(scope, receive, send))
    assert received == ["http.request", "http.disconnect"]


def test_closed_paths():
    assert is_closed("/gradio_api/file=/etc/passwd")
    assert is_closed("/file=/etc/passwd")
    assert is_closed("/gradio_api//upload")
    assert not is_closed("/gradio_api/call/explain")
    assert not is_closed("/")


def test_answers_forbid_everything_from_elsewhere(server):
    answer = httpx.get(server[0], trust_env=False)
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_another_name_for_this_machine_is_refused(server):
    answer = httpx.get(server[0], headers={"host": "evil.example"}, trust_env=False)
    assert answer.status_code == 400


def test_a_hostile_label_is_escaped_in_the_page(server):
    page = httpx.get(server[0], trust_env=False).text
    assert "<img src=x" not in page


def test_a_cancelled_request_stops_the_optimisation(server):
    from gradio_client import Client

    address, _ = server
    before = threading.active_count()
    job = Client(address, verbose=False).submit(text=LONG, methods=["marc"], steps=5000, api_name="/explain")
    while job.status().code.name != "PROCESSING":
        time.sleep(0.05)
    job.cancel()
    deadline = time.monotonic() + 20
    while _jobs_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _jobs_running() == 0
    assert threading.active_count() <= before + 8


def _jobs_running() -> int:
    from rationales.app.jobs import Job

    return sum(isinstance(item, Job) and item._thread.is_alive() for item in gc.get_objects())


def test_fifty_requests_at_once_are_answered_or_sent_away_politely(server):
    psutil = pytest.importorskip("psutil")
    address, served = server
    process = psutil.Process()

    def ask(number):
        return call(address, "explain", *explain_values(text=f"{TEXT} Number {number}."), timeout=120)

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(ask, range(50)))  # the allocator keeps an arena for every thread: that memory comes once
        gc.collect()
        before = process.memory_info().rss
        answers = list(pool.map(ask, range(50, 100)))
    answered = [content for kind, content in answers if kind == "complete"]
    refused = [content for kind, content in answers if kind == 503]
    assert len(answered) + len(refused) == 50
    assert len(answered) >= served.limits.queue
    assert all("full" in content for content in refused)
    texts = sorted(content[0]["results"][0]["text"] for content in answered)
    assert len(set(texts)) == len(texts)  # each got its own
    assert call(address, "explain", *explain_values())[0] == "complete"  # the process is alive
    gc.collect()
    assert process.memory_info().rss - before < 100e6
    assert _jobs_running() == 0
    assert len(served.visitors) == 0  # the API remembers nothing


def test_results_of_a_session_cannot_be_fetched_by_another(server):
    """The results of an event are under its random id; another id, or the same a second time, gives nothing."""
    address, _ = server
    base = f"{address}gradio_api/call/explain"
    joined = httpx.post(base, json={"data": list(explain_values())}, trust_env=False).json()["event_id"]
    assert len(joined) >= 32
    assert "dull" not in fetched(f"{base}/{'0' * 32}")
    assert "dull" in fetched(f"{base}/{joined}")
    assert "dull" not in fetched(f"{base}/{joined}")


def fetched(url):
    try:
        return httpx.get(url, timeout=10, trust_env=False).text
    except httpx.HTTPError:  # the server closes the connection, or has nothing to say
        return ""


def test_a_password_is_asked_for():
    from gradio_client import Client

    with background_server(make_service(), auth=("anna", "secret")) as address:
        assert call(address, "explain", *explain_values())[0] == 401
        assert httpx.get(f"{address}config", trust_env=False).status_code == 401
        page = httpx.get(address, trust_env=False).text
        assert "auth_required" in page
        assert "efficientnet-lite0" not in page
        wrong = httpx.post(f"{address}login", data={"username": "anna", "password": "x"}, trust_env=False)
        assert wrong.status_code == 400
        client = Client(address, auth=("anna", "secret"), verbose=False)
        assert client.predict(text=TEXT, removed=[], api_name="/probabilities")["parts"] > 5


def test_passwords_are_compared_as_a_whole():
    check = password_check("anna", "sécret")
    assert check("anna", "sécret")
    assert not any(check(*pair) for pair in (("anna", "secret"), ("ben", "sécret"), ("", "")))


def test_a_port_in_use_is_reported():
    with bound_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with pytest.raises(OptionError, match=r"cannot listen at 127\.0\.0\.1"):
            bound_socket("127.0.0.1", listener.getsockname()[1])


def test_a_broken_image_is_refused(server):
    for content in (b"GIF89a", b"<svg/>"):
        kind, _ = call(server[0], "explain", *explain_values(model="red", upload=data_url(content), text=""))
        assert kind == "error"
