"""What the benchmarks write into the pages: its shape, and the plots beside it. Not the numbers."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from runjournal.benchmarks import growing, pages, plot, table
from runjournal.benchmarks.figure import chosen

README = pages.README.read_text(encoding="utf-8")
PAGE = pages.PERFORMANCE.read_text(encoding="utf-8")
NUMBER = r"\d+(?:\.\d+)?"
SVG = "{http://www.w3.org/2000/svg}"

each_axis = pytest.mark.parametrize("name", growing.AXES)


def rows_of(part: str) -> tuple[list[str], list[list[str]]]:
    """The heads and the rows of a part's table; its last line says when and where."""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    where = part.splitlines()[-1]
    assert re.match(r"Measured \d{4}-\d\d-\d\d, \d+ cores, .+, Python 3\.\d+\.\d+, SQLite 3", where)
    assert all(len(row) == len(cells[0]) for row in cells), part
    return cells[0], cells[2:]


def check_table(part: str) -> list[str]:
    """A part like the README's; what its rows measured."""
    heads, rows = rows_of(part)
    assert heads == table.HEADS
    for what, against, ratio, rounds, better in rows:
        assert what
        assert against
        low, high = re.fullmatch(f"({NUMBER}) to ({NUMBER})", rounds).groups()  # type: ignore[union-attr]
        assert float(low) <= float(ratio) <= float(high), what
        assert better in ("more", "less")
    return [row[0] for row in rows]


def test_readme_has_the_table() -> None:
    measured = check_table(pages.part(README, "table"))
    assert len(measured) >= 12
    for word in ("SQLite, synchronous=FULL", "Postgres, 8 workers", "claim", "chain", "encrypted"):
        assert any(word in what for what in measured), word
    assert "Postgres 1" in pages.part(README, "table").splitlines()[-1]


@each_axis
def test_page_has_the_numbers_of_each_plot(name: str) -> None:
    axis = growing.AXES[name]
    heads, rows = rows_of(pages.part(PAGE, name))
    assert tuple(int(head.replace(",", "")) for head in heads[1:]) in (
        tuple(axis.sizes[1:]),
        tuple(axis.quick[1:]),
    )
    for _, *ratios in rows:
        for ratio in ratios:
            assert re.fullmatch(rf"{NUMBER} \({NUMBER} to {NUMBER}\)", ratio), ratio


@each_axis
def test_plot_has_a_line_for_each_row(name: str) -> None:
    part = pages.part(PAGE, name)
    assert part.startswith(f"![{growing.AXES[name].title}](plots/{name}.svg)\n")
    heads, rows = rows_of(part)
    text = (pages.PLOTS / f"{name}.svg").read_text(encoding="utf-8")
    drawn = ElementTree.fromstring(text)
    lines = {g.findtext(f"{SVG}title"): g for g in drawn.iter(f"{SVG}g")}
    assert list(lines) == [row[0].replace("`", "") for row in rows]
    for line in lines.values():
        assert len(line.findall(f"{SVG}circle")) == len(heads)
    labels = [element.text or "" for element in drawn.iter(f"{SVG}text")]
    assert growing.AXES[name].unit in labels
    assert any(label.startswith("ratio: ") for label in labels)
    assert "prefers-color-scheme: dark" in text


def test_every_plot_is_on_the_page() -> None:
    there = {path.name for path in pages.PLOTS.iterdir()}
    assert (
        there == set(re.findall(r"\(plots/([\w.]+)\)", PAGE)) == {f"{n}.svg" for n in growing.AXES}
    )


def test_plot_puts_numbers_where_they_belong() -> None:
    series = {"work": {100: (2.0, 1.5, 3.0), 10_000: (0.5, 0.5, 0.5)}}
    first = plot.svg("title", "x", "y", 1, series)
    assert plot.svg("title", "x", "y", 1, series) == first
    (line,) = ElementTree.fromstring(first).iter(f"{SVG}polyline")
    points = [[float(at) for at in point.split(",")] for point in line.attrib["points"].split()]
    (x1, one), (x2, double), (x3, half) = points
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)  # each is 100 times as large
    zero = plot.BOTTOM
    assert zero - double == pytest.approx(2 * (zero - one), abs=0.2)
    assert zero - half == pytest.approx((zero - one) / 2, abs=0.2)


def test_table_is_measured_and_put_into_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text(README, encoding="utf-8")
    monkeypatch.setattr(table, "README", page)
    monkeypatch.setattr("sys.argv", ["table", "--quick", "--only", "chain", "--write"])
    table.main()
    printed, told = capsys.readouterr()
    written = page.read_text(encoding="utf-8")
    assert pages.part(written, "table") == printed.strip()
    assert len(check_table(printed.strip())) == 2
    assert "not to be quoted" in printed
    assert told.count("less is better; ") == 2
    old, new = (re.split(r"<!-- [\w:]+ table -->", text) for text in (README, written))
    assert (old[0], old[2]) == (new[0], new[2])


def test_page_without_the_part_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'table'"):
        pages.put(page, "table", "text")
    assert page.read_text(encoding="utf-8") == "# Page\n"


def test_options_that_are_given_go_first() -> None:
    assert vars(chosen({"rounds": (9, 2), "dsn": (None, None)}, True, dsn="url", rounds=None)) == {
        "quick": True,
        "rounds": 2,
        "dsn": "url",
    }
