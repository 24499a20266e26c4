"""What the documentation shows, taken out of its pages."""

import re
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
PAGES = [PROJECT / "README.md", *sorted(PROJECT.glob("benches/**/*.md")), *sorted(PROJECT.glob("docs/**/*.md"))]
PROMPT = "127.0.0.1:6379> "


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str

    @property
    def name(self):
        """The page and the block's first line."""
        return f"{self.page.relative_to(PROJECT)}: {self.text.splitlines()[0].split(' #')[0].strip()}"

    @property
    def is_session(self):
        return PROMPT in self.text


def blocks(page):
    """The fenced blocks of a page, in their order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(page, language, text) for language, text in found]


def promised_output(program):
    """What the comments `prints: …` of a program say that it prints."""
    return "".join(line + "\n" for line in re.findall(r"(?:#|//) prints: (.*)", program))


def errors(page):
    """The rows of the tables of errors of a page: the text, and the example or nothing."""
    head = r"^\| error \| when \| example \|\n\|[-|]+\n"
    rows = []
    for table in re.findall(head + r"((?:\|.*\n?)+)", page.read_text(), re.MULTILINE):
        for row in table.splitlines():
            text, _when, example = (cell.strip() for cell in row.strip("|").split(" |"))
            rows.append((text.strip("`"), example.strip("`")))
    return rows


def option_errors(page):
    """The rows of the tables of wrong options of a page: the commands in the heading, the words, and the error."""
    rows = []
    for section in re.split(r"^(?=#)", page.read_text(), flags=re.MULTILINE):
        heading, _, text = section.partition("\n")
        for table in re.findall(r"^\| words \| error \|\n\|[-|]+\n((?:\|.*\n?)+)", text, re.MULTILINE):
            commands = re.findall(r"BF\.[A-Z]+", heading)
            for row in table.splitlines():
                words, error = (cell.strip(" `") for cell in row.strip("|").split(" |"))
                rows.append((commands, words, error))
    return rows


def facts(page):
    """The first table of a command's page: names and values."""
    return dict(re.findall(r"^\| ([a-zA-Z ]+) \| (.*) \|$", page.read_text(), re.MULTILINE))
