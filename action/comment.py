"""Writes comment.md as one comment of the pull request: a later run updates the same comment.

A comment that cannot be written is a warning, and changes no verdict: pull requests of forks have no right to write.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

_PAGES = 20
"""Pages of 100 comments in which the comment is searched."""


def main() -> None:
    number = pull_request_number()
    text = Path(os.environ["REPORTS"], "comment.md")
    if os.environ["COMMENT"] != "true" or number is None or not text.exists():
        return
    marker = f"<!-- seatrial: {os.environ['NAME']} -->"
    body = {"body": f"{marker}\n{text.read_text('utf-8')}{_footer()}"}
    try:
        known = find_comment(number, marker)
        if known is None:
            print("comment:", call("POST", f"/issues/{number}/comments", body)["html_url"])
        else:
            print("comment:", call("PATCH", f"/issues/comments/{known}", body)["html_url"])
    except (HTTPError, URLError, OSError, ValueError, KeyError) as problem:
        hint = " Give the job the permission pull-requests: write." if getattr(problem, "code", 0) in (403, 404) else ""
        print(f"::warning title=seatrial::the comment could not be written: {problem}.{hint}")


def pull_request_number() -> int | None:
    """The number of the pull request that started the workflow; None for other events."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    number = (event.get("pull_request") or {}).get("number")
    return number if isinstance(number, int) else None


def find_comment(number: int, marker: str) -> int | None:
    """The id of our comment."""
    for page in range(1, _PAGES + 1):
        comments = call("GET", f"/issues/{number}/comments?per_page=100&page={page}")
        for comment in comments:
            if str(comment["body"]).startswith(marker):
                return int(comment["id"])
        if len(comments) < 100:
            break
    return None


def call(method: str, path: str, body: Any = None) -> Any:
    api, repository = os.environ["GITHUB_API_URL"], os.environ["GITHUB_REPOSITORY"]
    request = Request(
        f"{api}/repos/{repository}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "Accept": "application/vnd.github+json"},
    )
    with urlopen(request, timeout=30) as response:
        return json.load(response)


def _footer() -> str:
    commit = os.environ.get("GITHUB_SHA", "")[:7]
    job = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}".format_map(os.environ)
    return f"\n<sub>Commit {commit}. [Job, with the HTML report as an artifact]({job})</sub>\n"


if __name__ == "__main__":
    sys.exit(main())
