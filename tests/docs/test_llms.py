"""llms.txt and llms-full.txt have every page of the site."""

import re

import yaml

from seatrial_docs.blocks import ROOT
from seatrial_docs.llms import write_full, write_index

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
ABOUT = (SITE["site_name"], SITE["site_description"], SITE["nav"], ROOT / "docs")
PAGES = {str(page.relative_to(ROOT / "docs").as_posix()) for page in (ROOT / "docs").rglob("*.md")}


def test_the_list_has_every_page_with_a_sentence() -> None:
    entries = re.findall(r"^- \[[^\]]+\]\(([^)]+)\.html\): (.*)$", write_index(*ABOUT), re.MULTILINE)

    assert {f"{file}.md" for file, _ in entries} == PAGES
    assert [file for file, sentence in entries if len(sentence) < 15] == []


def test_the_whole_has_the_text_of_every_page() -> None:
    whole = write_full(*ABOUT)

    assert set(re.findall(r"^<!-- (\S+\.md) -->$", whole, re.MULTILINE)) == PAGES
    assert (ROOT / "docs/coding-agents.md").read_text("utf-8").strip() in whole
