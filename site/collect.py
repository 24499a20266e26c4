#!/usr/bin/env python3
"""Collects what the site is built of: FOLDER/mkdocs.yml, and the pages in FOLDER/pages.

    collect.py FOLDER

The pages are those of site/pages, README.md, everything in docs, and what these link to, under the paths that they have in
the project. So the links between them hold. A program that a page links to becomes a page that shows it, which search leaves
out. A page is described by its first paragraph. The navigation is the list in docs/README.md: a heading is a section, and a
page stands where the list links to it first.
"""

import json
import posixpath
import re
import shutil
import sys
from pathlib import Path
from textwrap import shorten

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
INDEX = "docs/README.md"
PICTURES = {".svg", ".png"}
LANGUAGES = {".java": "java", ".js": "js", ".lua": "lua", ".py": "python", ".rs": "rust", ".ts": "ts", ".yml": "yaml"}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^(```+).*?^\1", re.M | re.S)
# On the first page, below what it begins with.
TRY = "[Watch a filter work](watch.md){ .md-button .md-button--primary } [How much memory?](calculator.md){ .md-button }\n\n"


def target_of(page, link):
    """The file of the project that a page links to."""
    return None if re.match(r"\w+:", link) else posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def links(page, text):
    """The files of the project that a text links to, each once."""
    found = [target_of(page, link) for _, link, _ in LINK.findall(FENCE.sub("", text))]
    return list(dict.fromkeys(target for target in found if target))


def is_program(name):
    return not name.endswith(".md") and Path(name).suffix not in PICTURES


def all_files():
    left = ["README.md", *(f"{path.relative_to(PROJECT)}" for path in sorted(PROJECT.glob("docs/**/*.md")))]
    found = set()
    while left:
        name = left.pop()
        if name not in found and (PROJECT / name).is_file():
            found.add(name)
            if name.endswith(".md"):
                left += links(name, (PROJECT / name).read_text())
    return sorted(found)


def with_pages_below(page):
    """A page in the navigation. The README.md of a folder in docs has the folder's pages below it, as it links to them."""
    folder, name = posixpath.split(page)
    text = (PROJECT / page).read_text()
    below = [target for target in links(page, text) if posixpath.dirname(target) == folder and target != page]
    if not folder.startswith("docs/") or name != "README.md" or not below:
        return page
    title = re.search(r"^# (.*)", text, re.M)[1]
    return {title: [{"All": page}, *below]}


def sections():
    """The navigation that the list in docs/README.md describes."""
    index = (PROJECT / INDEX).read_text()
    entries = {name: with_pages_below(name) for name in links(INDEX, index) if name.endswith(".md")}
    taken = {"README.md", INDEX}
    for entry in entries.values():
        if isinstance(entry, dict):
            taken.update(*(pages[1:] for pages in entry.values()))
    for part in index.split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        pages = [page for page in links(INDEX, text) if page in entries and page not in taken]
        taken.update(pages)
        yield {heading: [entries[page] for page in pages]}


def description(text):
    """The first paragraph, without marks and cut after a word."""
    paragraph = next((part for part in FENCE.sub("", text).split("\n\n") if re.match(r"[\w`*\[\"]", part)), "")
    plain = re.sub(r"[`*]", "", re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", paragraph))
    return shorten(plain, 200, placeholder=" …")


def page_of(name):
    """The text of a page, whose links to programs lead to the pages that show them."""
    text = (PROJECT / name).read_text()
    if is_program(name):
        shown = f"# {Path(name).name}\n\n`{name}`\n\n````{LANGUAGES.get(Path(name).suffix, 'text')}\n{text.strip()}\n````\n"
        return f"---\nsearch: {{ exclude: true }}\n---\n{shown}"

    def to_page(link):
        target = target_of(name, link[2])
        return f"{link[1]}{link[2]}.md{link[3]}" if target and is_program(target) else link[0]

    # A command's page comes first, a name before those that begin with it, and what is not in docs last.
    command = re.fullmatch(r"docs/commands/bf\.(\w+)\.md", name)
    weight = 20 / len(command[1]) if command else 1 if name.startswith("docs/") else 0.2
    settings = {"description": description(text), "search": {"boost": weight}}
    if name == "README.md":
        title, first, rest = text.split("\n\n", 2)
        text = f"{title}\n\n{first}\n\n{TRY}{rest}"
    return f"---\n{json.dumps(settings)}\n---\n{LINK.sub(to_page, text)}"


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("pages", "theme"):
        shutil.copytree(HERE / part, folder / part)
    for name in all_files():
        copy = folder / "pages" / (f"{name}.md" if is_program(name) else name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if Path(name).suffix in PICTURES:
            shutil.copy(PROJECT / name, copy)
        else:
            copy.write_text(page_of(name))
    navigation = [{"Start": "README.md"}, {"Try": ["watch.md", "calculator.md"]}, *sections(), {"All pages": INDEX}]
    settings = (HERE / "mkdocs.yml").read_text()
    (folder / "mkdocs.yml").write_text(f"{settings}\nnav: {json.dumps(navigation)}\n")


if __name__ == "__main__":
    main()
