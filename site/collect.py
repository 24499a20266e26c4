#!/usr/bin/env python3
"""Collects what the site is built of: FOLDER/mkdocs.yml, and the pages in FOLDER/pages.

    collect.py FOLDER

The pages are those of site/pages, README.md, everything in docs, and what these link to, under the paths that they have in
the project. So the links between them hold. A program that a page links to becomes a page that shows it. The navigation is
the list in docs/README.md: a heading is a section, and a page stands where the list links to it first. $REPOSITORY_URL
is linked last.
"""

import json
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
INDEX = "docs/README.md"
PICTURES = {".svg", ".png"}
LANGUAGES = {".java": "java", ".js": "js", ".lua": "lua", ".py": "python", ".rs": "rust", ".ts": "ts", ".yml": "yaml"}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^(```+).*?^\1", re.M | re.S)


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


def page_of(name):
    """The text of a page, whose links to programs lead to the pages that show them."""
    text = (PROJECT / name).read_text()
    if is_program(name):
        return f"# {Path(name).name}\n\n`{name}`\n\n````{LANGUAGES.get(Path(name).suffix, 'text')}\n{text.strip()}\n````\n"

    def shown(link):
        target = target_of(name, link[2])
        return f"{link[1]}{link[2]}.md{link[3]}" if target and is_program(target) else link[0]

    return LINK.sub(shown, text)


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "pages", folder / "pages")
    for name in all_files():
        copy = folder / "pages" / (f"{name}.md" if is_program(name) else name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if Path(name).suffix in PICTURES:
            shutil.copy(PROJECT / name, copy)
        else:
            copy.write_text(page_of(name))
    navigation = [{"Start": "README.md"}, {"Try": ["watch.md", "calculator.md"]}, *sections(), {"All pages": INDEX}]
    if source := os.environ.get("REPOSITORY_URL"):
        navigation.append({"Source code": source})
    settings = (HERE / "mkdocs.yml").read_text()
    (folder / "mkdocs.yml").write_text(f"{settings}\nnav: {json.dumps(navigation)}\n")


if __name__ == "__main__":
    main()
