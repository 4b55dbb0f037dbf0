"""The audit page in a real browser: nothing is loaded, nothing smuggled in runs, all is seen."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from runjournal import open_journal

from .conftest import OpenPage
from .lives import LIMITS, eventful, page_of

#: Seconds in which a page with 5,000 events must have loaded and been filtered. It takes about one.
RESPONSIVE = 15.0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_it_is_readable_at_any_width(
    open_page: OpenPage, screenshot: Callable[[Page, str], Path], width: int, scheme: str
) -> None:
    page = open_page(page_of(), width, scheme)
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    # Nothing sticks out to the right.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 3 * 64) == (scheme == "dark")
    assert screenshot(page, f"report-{width}-{scheme}").stat().st_size > 10_000


def test_what_happened_is_seen_at_one_look(open_page: OpenPage) -> None:
    page = open_page(page_of())
    header = page.locator("article > header")
    expect(header).to_contain_text("completed")
    expect(header).to_contain_text("2 owners, 1 takeover, 4 checkpoints, 1 suspension, 2 decisions")
    expect(header.get_by_role("link", name=re.compile("^✓ verified$"))).to_be_visible()
    names = page.locator(".lane .name b").all_inner_texts()
    assert names == ["run", "worker-1", "worker-2", "delivery"]
    tokens = page.locator(".lane.owner text.in").all_text_contents()
    assert tokens == ["1", "3", "2"]
    marks = page.locator(".lanes .glyph").evaluate_all("all => all.map(g => g.classList[1])")
    assert {"takeover", "lost", "checkpoint", "decision", "completed", "delivered"} <= set(marks)
    titles = page.locator(".lanes title").all_text_contents()
    assert any("worker-1, token 1, attempt 1: taken over, 3 checkpoints" in t for t in titles)
    holders = page.locator(".cards").first.locator("tbody tr").all_inner_texts()
    assert len(holders) == 3
    assert re.search(r"taken over.*idle for at most", holders[0])
    asked = page.locator(".asked li").all_inner_texts()
    assert [re.sub(r"\s+2026.*", "", one.strip(), flags=re.DOTALL) for one in asked] == [
        "alice started it",
        "bob decided manager: yes",
        "carol decided bank: no",
        "carol resumed it",
    ]
    expect(page.locator(".cards small", has_text="503 busy")).to_be_visible()


def test_filter_and_expand_by_keyboard(open_page: OpenPage) -> None:
    page = open_page(page_of(input={"day": "2025-03-01"}))
    rows = page.locator(".log tbody tr:not(.more)")
    expect(rows).to_have_count(18)
    page.locator(".tools input").focus()
    page.keyboard.type("lease worker-2")
    expect(rows).to_have_count(1)
    expect(page.get_by_role("status")).to_have_text("1 of 18 events")
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Tab")
    page.keyboard.type("queued")  # picks it in the list
    expect(rows).to_have_count(1)
    page.keyboard.press("Tab")
    button = page.get_by_role("button", name="queued")
    expect(button).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.locator("pre").count() == 0
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(page.locator("pre")).to_contain_text('"day": "2025-03-01"')
    page.keyboard.press("Space")
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(page.locator("pre")).to_be_hidden()


EVIL = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "line\u2028separator\u2029 \u202etxet",
    "&lt;b&gt; ]]> ${alert(1)} {{ 7 * 7 }}",
]


def test_a_payload_is_only_ever_text(open_page: OpenPage) -> None:
    """Also as an owner, an actor, a label, an error: the fixture fails on a dialog or a request."""
    with open_journal("memory:") as journal:
        for number, text in enumerate(EVIL):
            run_id, name = f"r{number}", plain(text)
            ledger = journal.ledger(owner=name)
            ledger.start(run_id, kind=name, input={text: text}, labels={name: name}, actor=name)
            ledger.acquire(run_id, heartbeat=False).fail(name, text)
        page = open_page(journal.report([f"r{number}" for number in range(len(EVIL))]))
    for number, text in enumerate(EVIL):
        run = page.locator(f"#run-{number + 1}")
        run.locator(".log button").first.click()
        escaped = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
        assert f'"{escaped}": "{escaped}"' in run.locator("pre").inner_text()
        assert plain(text) in run.locator(".lane.owner .name").inner_text()
    assert page.locator("script").count() == len(EVIL) + 1
    assert page.locator("img, article b article").count() == 0


def plain(text: str) -> str:
    """What of a text a name may consist of."""
    return "".join(c for c in text if c.isprintable())


def test_ten_megabytes_of_payload_are_cut_and_told(open_page: OpenPage) -> None:
    text = page_of(input="x" * 10_000_000)
    assert len(text) < 200_000
    page = open_page(text)
    page.locator(".log button").first.click()
    told = page.locator(".payload").inner_text()
    assert "10,000,002 bytes" in told
    assert re.search("sha256 [0-9a-f]{64}", told)
    assert "cut after 16,384 bytes" in told


def test_without_payloads(open_page: OpenPage) -> None:
    text = page_of(input={"secret": "hunter2"}, payloads=False)
    assert "hunter2" not in text
    page = open_page(text)
    page.locator(".log button").first.click()
    expect(page.locator(".payload")).to_contain_text("left out of this page; 20 bytes, sha256")
    expect(page.locator("footer")).to_contain_text("were left out")


def test_five_thousand_events_stay_responsive(open_page: OpenPage) -> None:
    with open_journal("memory:") as journal:
        lease = journal.ledger(owner="worker").acquire("long", heartbeat=False)
        for n in range(4_997):
            lease.save_checkpoint({"offset": n})
        lease.complete()
        text = journal.report(["long"])
    began = time.perf_counter()
    page = open_page(text)
    expect(page.get_by_role("status")).to_have_text("5,000 events")
    page.locator(".tools input").fill("completed")
    rows = page.locator(".log tbody tr:not(.more)")
    expect(rows).to_have_count(1)
    assert time.perf_counter() - began < RESPONSIVE
    page.locator(".tools input").fill("")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Later").click()
    expect(rows.first).to_contain_text("101")
    # The lanes do not grow with the run either.
    assert page.locator(".lanes *").count() < 1_500


def test_several_runs_on_one_page(open_page: OpenPage) -> None:
    with open_journal("memory:", limits=LIMITS) as journal:
        eventful(journal, "one")
        eventful(journal, "two")
        page = open_page(journal.report(["two", "one"]))
    links = page.get_by_role("navigation").get_by_role("link")
    assert links.all_inner_texts() == ["two", "one"]
    links.nth(1).click()
    expect(page.locator("#run-2 h1")).to_be_in_viewport()
    page.locator("#run-2 .tools input").fill("queued")
    expect(page.locator("#run-2 .log tbody tr:not(.more)")).to_have_count(1)
    expect(page.locator("#run-1 .log tbody tr:not(.more)")).to_have_count(18)


def test_it_prints(open_page: OpenPage, screenshot: Callable[[Page, str], Path]) -> None:
    page = open_page(page_of(), scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(page.locator(".tools input")).to_be_hidden()
    expect(page.locator(".log")).to_be_visible()
    screenshot(page, "report-print")
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_nothing_but_its_own_script_may_run(browser: Browser, tmp_path: Path) -> None:
    """The policy itself: what is smuggled into the finished file does not run."""
    smuggled = "<script>document.title = 'taken'</script><p style='color: red' id='p'>x</p>"
    (tmp_path / "page.html").write_text(page_of().replace("</main>", f"{smuggled}</main>"))
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.get_by_role("status")).to_have_text("18 events")
    assert page.title() == "nightly · runjournal"
    assert page.evaluate("getComputedStyle(document.querySelector('#p')).color") != "rgb(255, 0, 0)"
    assert len([text for text in refused if "Content Security Policy" in text]) == 2
    page.close()
