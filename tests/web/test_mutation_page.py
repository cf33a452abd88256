"""The page of a mutation."""

import re
from collections.abc import Callable
from typing import Any


def test_the_run_links_to_its_mutation_with_each_survivor_beside_its_original(
    own_project: Any, serve: Callable[..., Any]
) -> None:
    own_project.seatrial("run")
    made = own_project.seatrial("mutate")
    served = serve(store=own_project.store)
    run = served.json("/api/runs")["runs"][0]["id"]
    assert f'href="/runs/{run}/mutation"' in served.get(f"/runs/{run}").text
    page = served.get(f"/runs/{run}/mutation").text
    assert re.search(r"<h1>\d+ of \d+ mutants caught", page), made.stdout + made.stderr
    [anchor, *_] = re.findall(r'<a href="#([^"]+)">\d+/\d+</a>', page)
    assert f'id="{anchor}"' in page
    assert "<th>Original</th><th>Mutant</th>" in page


def test_a_run_that_was_not_mutated_says_how(served: Any) -> None:
    run = served.json("/api/runs")["runs"][0]["id"]
    assert f"<code>seatrial mutate {run}</code>" in served.get(f"/runs/{run}/mutation").text
    assert served.get("/runs/none/mutation").status_code == 404
