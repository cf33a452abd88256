"""Who may do what, over HTTP."""

import re
import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest

from seatrial.errors import UsageError
from seatrial.web.access import Access, ServeOptions
from seatrial.web.app import make_app

TOKEN = "correct-horse-battery"
BEARER = {"authorization": f"Bearer {TOKEN}"}
LABEL = {"scenario_id": "x", "number": 1, "value": 1, "who": "ada"}


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found.group(1)


def same_origin(served: Any) -> dict[str, str]:
    """What a browser says of a request from one of our pages."""
    return {"origin": served.address, "sec-fetch-site": "same-origin"}


def test_a_server_that_others_can_reach_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SEATRIAL_TOKEN"):
        make_app(ServeOptions(store="runs.db", root=tmp_path, host="0.0.0.0"))


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 16"):
        make_app(ServeOptions(store="runs.db", root=tmp_path, token="secret"))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1:80"])
def test_a_foreign_name_for_this_machine_is_refused(served: Any, host: str) -> None:
    assert served.get("/api/runs", headers={"host": host}).status_code in (400, 403)


def test_behind_a_proxy_with_tls_cookies_are_for_tls_alone(serve: Any) -> None:
    proxied = {"x-forwarded-proto": "https", "host": "trials.example", "origin": "https://trials.example"}
    server = serve(token=TOKEN)
    done = server.client.post("/login", data={"token": TOKEN}, headers=proxied)
    assert done.status_code == 303
    assert done.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
    assert "; Secure" not in serve().get("/").headers["set-cookie"]
    assert "; Secure" in serve().get("/", headers={"x-forwarded-proto": "https"}).headers["set-cookie"]


def test_a_token_lets_in_by_any_name_and_nobody_without_it(serve: Any) -> None:
    server = serve(token=TOKEN)
    named = {"host": "trials.example"}
    assert server.get("/api/runs", headers=named).status_code == 401
    assert server.get("/api/runs", headers={**named, "authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "localhost:8321", "127.0.0.1", "[::1]:8321", "LOCALHOST"])
def test_the_names_of_this_machine_are_known(served: Any, host: str) -> None:
    assert served.get("/api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("given", [{}, {"authorization": "Bearer wrong-horse-battery"}, {"authorization": TOKEN}])
def test_without_the_token_the_api_says_nothing(serve: Any, given: dict[str, str]) -> None:
    answer = serve(token=TOKEN).get("/api/runs", headers=given)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "good" not in answer.text


def test_with_the_token_the_api_looks_and_changes(serve: Any, own_project: Any) -> None:
    served = serve(token=TOKEN, store=own_project.store)

    assert served.get("/api/runs", headers=BEARER).status_code == 200
    assert served.client.put("/api/baselines", json={"run_id": "good"}, headers=BEARER).status_code == 200


def test_pages_lead_to_the_login_and_from_there_to_where_one_wanted(serve: Any) -> None:
    served = serve(token=TOKEN)
    sent = served.get("/runs/good?view=trials")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2Fruns%2Fgood%3Fview%3Dtrials")

    done = served.client.post("/login", data={"token": TOKEN, "next": "/runs/good?view=trials"})

    assert (done.status_code, done.headers["location"]) == (303, "/runs/good?view=trials")
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert "Secure" not in cookie
    assert served.get("/runs/good").status_code == 200


def test_a_wrong_token_gives_no_session(serve: Any) -> None:
    served = serve(token=TOKEN)
    answer = served.client.post("/login", data={"token": "correct-horse-batter_"})

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert served.get("/").status_code == 303


def test_a_made_up_session_is_none(serve: Any) -> None:
    answer = serve(token=TOKEN).get("/", headers={"cookie": "seatrial_session=abc.def"})

    assert answer.status_code == 303


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_the_login_leads_nowhere_else(serve: Any, wanted: str) -> None:
    done = serve(token=TOKEN).client.post("/login", data={"token": TOKEN, "next": wanted})

    assert done.headers["location"] == "/"


def test_a_form_without_its_proof_is_refused(served: Any) -> None:
    with httpx2.Client(base_url=served.address) as browser:
        browser.get("/")
        for proof in ({}, {"csrf": "0" * 64}):
            answer = browser.post("/runs/good/baseline", data=proof, headers=same_origin(served))
            assert answer.status_code == 403


def test_a_form_with_its_proof_is_taken(serve: Any, own_project: Any) -> None:
    served = serve(store=own_project.store)
    with httpx2.Client(base_url=served.address) as browser:
        proof = {"csrf": csrf_of(browser.get("/runs/good").text)}
        answer = browser.post("/runs/good/baseline", data=proof, headers=same_origin(served))

    assert answer.status_code == 303
    assert served.json("/api/baselines")[0]["run_id"] == "good"


def test_the_proof_of_one_session_is_none_in_another(served: Any) -> None:
    proof = {"csrf": csrf_of(httpx2.get(f"{served.address}/runs/good").text)}
    with httpx2.Client(base_url=served.address) as other:
        other.get("/")
        assert other.post("/runs/good/baseline", data=proof).status_code == 403


@pytest.mark.parametrize(
    "said", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "same-site"}]
)
def test_another_site_changes_nothing(served: Any, said: dict[str, str]) -> None:
    assert served.client.post("/api/runs/bad/labels", json=LABEL, headers=said).status_code == 403


def test_a_browser_must_prove_itself_to_the_api_as_well(served: Any) -> None:
    with httpx2.Client(base_url=served.address) as browser:
        proof = csrf_of(browser.get("/runs/good").text)
        own = same_origin(served)
        without = browser.post("/api/runs/bad/labels", json=LABEL, headers=own)
        with_it = browser.post("/api/runs/bad/labels", json=LABEL, headers={**own, "x-csrf-token": proof})

    assert (without.status_code, with_it.status_code) == (403, 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/runs"), ("PUT", "/api/baselines"), ("DELETE", "/api/baselines"), ("POST", "/runs")],
)
def test_a_read_only_server_changes_nothing(serve: Any, method: str, path: str) -> None:
    served = serve(read_only=True)

    assert served.client.request(method, path, json={}).status_code == 403
    assert "<form method" not in served.get("/").text + served.get("/runs/good").text


def test_every_answer_has_the_headers_that_protect(served: Any) -> None:
    for path in ("/", "/api/runs", "/static/seatrial.js", "/nosuch", "/api/nosuch"):
        headers = served.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_body_that_is_too_large_is_refused(served: Any) -> None:
    body = b'{"paths": ["' + b"x" * 70_000 + b'"]}'
    json_type = {"content-type": "application/json"}

    def in_pieces() -> Any:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    assert served.client.post("/api/runs", content=body, headers=json_type).status_code == 413
    assert served.client.post("/api/runs", content=in_pieces(), headers=json_type).status_code == 413


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"]
)
def test_static_files_are_those_of_the_folder_alone(served: Any, path: str) -> None:
    host, port = served.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    "path",
    [
        "../outside.yaml",
        "/etc/passwd",
        "link.yaml",
        "nosuch.yaml",
        "agent.py/../../outside.yaml",
        "\x00",
        "hostile.json\n",
        "agent.py",
        "clean_up_trials.py",
        ".hidden/secret_trials.py",
        ".hidden",
        "mixed",
        "empty",
    ],
)
def test_only_suites_under_the_folder_are_run(serve: Any, own_project: Any, path: str) -> None:
    outside = own_project.path.parent / "outside.yaml"
    outside.write_text("scenarios: []", encoding="utf-8")
    (own_project.path / "link.yaml").symlink_to(outside)
    code = "import pathlib; pathlib.Path(__file__).with_name('executed').touch()"
    for name in ("clean_up_trials.py", "mixed/clean_up_trials.py", ".hidden/secret_trials.py"):
        (own_project.path / name).parent.mkdir(exist_ok=True)
        (own_project.path / name).write_text(code, encoding="utf-8")
    (own_project.path / "empty").mkdir()
    served = serve(root=own_project.path, store=own_project.store)
    served.get("/")

    answer = served.client.post("/api/runs", json={"paths": [path]})

    assert answer.status_code == 422
    assert "detail" in answer.json()
    assert not any("executed" in str(file) for file in own_project.path.rglob("*"))
    assert served.json("/api/suites")["suites"] == ["hostile.trial.json", "slow.yaml", "tables.json"]


def test_a_folder_of_suites_can_be_run(serve: Any, own_project: Any) -> None:
    (own_project.path / "more").mkdir()
    (own_project.path / "tables.json").rename(own_project.path / "more" / "tables.json")
    served = serve(root=own_project.path, store=own_project.store)
    served.get("/")

    assert served.client.post("/api/runs", json={"paths": ["more"]}).status_code == 202


@pytest.mark.parametrize("path", ["/api/runs", "/api/runs/bad/resume"])
def test_a_program_without_a_session_starts_nothing(serve: Any, path: str) -> None:
    served = serve()
    body = {"paths": ["nosuch.yaml"]}
    without = served.client.post(path, json=body)
    assert (without.status_code, "session" in without.json()["detail"]) == (403, True)
    served.get("/")
    assert served.client.post(path, json=body).status_code in (409, 422)


def test_another_site_cannot_log_anybody_in(serve: Any) -> None:
    said = {"origin": "https://evil.example"}
    answer = serve(token=TOKEN).client.post("/login", data={"token": TOKEN}, headers=said)

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def log_in(served: Any, token: str = TOKEN) -> Any:
    return served.client.post("/login", data={"token": token})


def test_logging_out_ends_the_session_for_good(serve: Any) -> None:
    served = serve(token=TOKEN, read_only=True)
    log_in(served)
    cookie = served.client.cookies["seatrial_session"]
    page = served.get("/").text
    assert ">Log out<" in page

    assert served.client.post("/logout").status_code == 403
    done = served.client.post("/logout", data={"csrf": csrf_of(page)})

    assert (done.status_code, done.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in done.headers["set-cookie"]
    assert "seatrial_session" not in served.client.cookies
    stolen = served.get("/", headers={"cookie": f"seatrial_session={cookie}"})
    assert (stolen.status_code, stolen.headers["location"]) == (303, "/login?next=%2F")


def test_without_a_token_there_is_nothing_to_log_out_of(served: Any) -> None:
    assert "Log out" not in served.get("/").text
    assert "Log out" not in served.get("/login").text


def test_a_session_ends_after_twelve_hours(tmp_path: Path) -> None:
    time = [1_000_000.0]
    access = Access(ServeOptions(store="runs.db", root=tmp_path, token=TOKEN), clock=lambda: time[0])
    cookie = {"cookie": f"seatrial_session={access.new_session()}"}

    time[0] += 12 * 3600 - 1
    assert access.refuse("GET", "/", cookie) is None
    time[0] += 2
    refusal = access.refuse("GET", "/", cookie)
    assert refusal is not None
    assert refusal.status == 401


def test_a_session_does_not_outlive_the_server(tmp_path: Path) -> None:
    options = ServeOptions(store="runs.db", root=tmp_path, token=TOKEN)
    cookie = {"cookie": f"seatrial_session={Access(options).new_session()}"}

    assert Access(options).session(cookie) is None


@pytest.mark.parametrize("by", ["form", "header"])
def test_guesses_of_the_token_are_slowed(serve: Any, by: str) -> None:
    served = serve(token=TOKEN)

    def guess(token: str) -> Any:
        if by == "form":
            return log_in(served, token)
        return served.get("/api/runs", headers={"authorization": f"Bearer {token}"})

    answers = [guess(f"wrong-horse-battery-{number}") for number in range(7)]

    assert [answer.status_code for answer in answers][:6] == ([403] if by == "form" else [401]) * 6
    assert answers[6].status_code == 429
    assert int(answers[6].headers["retry-after"]) >= 1
    assert "Try again in" in answers[6].text
    assert guess(TOKEN).status_code == 429, "a guess that is right is not told from one that is wrong meanwhile"


def test_each_wrong_guess_doubles_the_wait_up_to_a_minute(tmp_path: Path) -> None:
    time = [0.0]
    access = Access(ServeOptions(store="runs.db", root=tmp_path, token=TOKEN), clock=lambda: time[0])
    waits = []
    for _ in range(14):
        assert access.check_token("wrong", "10.0.0.1") is False
        waits.append(access.seconds_to_wait("10.0.0.1"))
        time[0] += waits[-1]

    assert waits == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert access.seconds_to_wait("10.0.0.2") == 0
    assert access.check_token(TOKEN, "10.0.0.1") is True
    assert access.check_token("wrong", "10.0.0.1") is False
    assert access.seconds_to_wait("10.0.0.1") == 0
