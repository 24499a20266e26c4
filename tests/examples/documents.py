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


def promised_files(page):
    """The fenced blocks of a page that is followed step by step: the name of the file as which it is to be saved, if
    any, and the text."""
    found = re.findall(r"(?:as `(\S+)`:\n\n)?^```\w*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [(name, text) for name, text in found]


def promised_output(program):
    """What the comments `prints: …` of a program say that it prints."""
    return "".join(line + "\n" for line in re.findall(r"(?:#|//) prints: (.*)", program))


def sections(page):
    """The headings of a page, and the text below each."""
    parts = re.split(r"^(?=#)", page.read_text(), flags=re.MULTILINE)
    return [part.partition("\n")[::2] for part in parts]


def errors(page):
    """The errors that a page lists below `Errors`. They stand in its sessions too, or cannot be shown."""
    text = "".join(text for heading, text in sections(page) if heading == "## Errors")
    return re.findall(r"^- `([A-Z]{3,} [^`]*)`", text, re.MULTILINE)


def option_errors(page):
    """The wrong options that a page's sessions show: the commands in the heading above, the words and the error."""
    rows = []
    line = rf"^{PROMPT}BF\.(?:RESERVE new 0\.01 100|INSERT new) (.*?)(?: ITEMS item)?\n\(error\) (.*)$"
    for heading, text in sections(page):
        commands = re.findall(r"BF\.[A-Z]+", heading)
        rows += [(commands, words, error) for words, error in re.findall(line, text, re.MULTILINE)]
    return rows


def facts(page):
    """What a command's page says below its arguments: the complexity, and who has had the command since when."""
    text = re.sub(r"\n {12}", " ", blocks(page)[0].text)
    return dict(re.findall(r"^(complexity|since): +(.*)$", text, re.MULTILINE))


def permissions(page):
    """The permissions and the flags of each command, from the page's table."""
    found = {}
    for names, permission, flags in re.findall(r"^\| (`BF\..*) \| (.*) \| `(.*)` \|$", page.read_text(), re.MULTILINE):
        found.update((name, (permission, flags)) for name in re.findall(r"BF\.[A-Z]+", names))
    return found
