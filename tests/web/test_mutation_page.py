"""The page of a mutation."""

import re
from collections.abc import Callable
from pathlib import Path
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
    anchors = re.findall(r'<a href="#([^"]+)">\d+/\d+</a>', page)
    assert anchors
    for anchor in anchors:  # inside of a folded part, which the browser unfolds to show it
        assert re.search(rf'<details class="trial"><summary>[^\n]+</summary>\n<div id="{anchor}">', page)
    assert '<th scope="col">Original</th><th scope="col">Mutant</th>' in page
    [original, *_] = re.findall(rf'<a href="(/runs/{run}/scenarios/[^"]+)">trial-1</a>', page)
    assert served.get(original).status_code == 200


def test_the_run_shows_its_mutation_score_beside_that_of_the_baseline(
    own_project: Any, serve: Callable[..., Any]
) -> None:
    own_project.seatrial("run", "--id", "before")
    own_project.seatrial("mutate", "--operator", "empty reply")
    own_project.seatrial("baseline", "set", "before")
    own_project.seatrial("run", "--id", "after")
    served = serve(store=own_project.store)
    assert "Mutation score" not in served.get("/runs/after").text

    own_project.seatrial("mutate", "--operator", "empty reply")
    page = served.get("/runs/after").text
    [tile] = re.findall(r'<a class="tile" href="/runs/after/mutation"[^\n]+', page)
    assert re.search(r"Mutation score</p><p class=\"value\">[\d.]+ %</p><p class=\"more\">\d+/\d+ mutants", tile), tile

    assert "+0.0 points" in tile
    (Path(own_project.store).parent / "mutations" / "after.json").write_text("{")
    assert served.get("/runs/after").status_code == 200
    assert served.get("/runs/after/mutation").status_code == 503


def test_a_run_that_was_not_mutated_says_how(served: Any) -> None:
    run = served.json("/api/runs")["runs"][0]["id"]
    assert f"<code>seatrial mutate {run}</code>" in served.get(f"/runs/{run}/mutation").text
    assert served.get("/runs/none/mutation").status_code == 404
