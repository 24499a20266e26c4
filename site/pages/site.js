// Mends the theme for who has no mouse, or has pages read aloud: what scrolls can have the focus, and a button for copying
// is no landmark. The theme takes this back when the window gets another size.
function mend() {
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .scroll")) {
    if (box.scrollWidth > box.clientWidth && box.tabIndex < 0) box.tabIndex = 0;
  }
  for (const buttons of document.querySelectorAll(".md-code__nav:not([role])")) buttons.setAttribute("role", "none");
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true, attributeFilter: ["tabindex"] });
mend();
