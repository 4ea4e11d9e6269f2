// The command menu: Ctrl K or Cmd K opens it, arrows choose, Enter opens, Escape closes.
"use strict";

(() => {
  const menu = document.getElementById("command-menu");
  if (!menu) return;
  const field = document.getElementById("command-text");
  const results = document.getElementById("command-results");
  const count = document.getElementById("command-count");
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

  for (const key of document.querySelectorAll("[data-search-key]")) if (isMac) key.textContent = "⌘ K";

  const options = () => [...results.querySelectorAll("[role=option]")];
  const chosen = () => results.querySelector('[aria-selected="true"]');

  function choose(option) {
    chosen()?.removeAttribute("aria-selected");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
  }

  function open() {
    if (menu.open || document.querySelector("dialog[open]")) return;
    document.querySelector("#side-panel:popover-open")?.hidePopover();
    menu.showModal();
    field.focus();
    field.select();
    htmx.trigger(field, "open-search");
  }

  // Results count as current only if they are for the typed text. The server ignores spaces around the text.
  const typed = () => field.value.trim();
  const areCurrent = () => results.querySelector(".search-hits")?.dataset.typed === typed();

  results.addEventListener("htmx:afterSwap", () => {
    const found = options();
    field.setAttribute("aria-expanded", String(found.length > 0));
    count.textContent = found.length === 1 ? "1 result" : `${found.length} results`;
    results.scrollTop = 0;
    choose(found[0]);
  });

  field.addEventListener("htmx:beforeRequest", (event) => {
    event.detail.xhr.typed = typed();
  });
  results.addEventListener("htmx:afterSwap", (event) => {
    const hits = results.querySelector(".search-hits");
    if (hits) hits.dataset.typed = event.detail.xhr.typed ?? "";
  });

  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const found = options();
    const at = found.indexOf(chosen());
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (next !== undefined && found.length) {
      event.preventDefault();
      choose(found[(next + found.length) % found.length]);
    } else if (event.key === "Enter") {
      // Without current results, the form is sent, and the server redirects to the only match.
      const option = areCurrent() && chosen();
      if (!option && typed()) return;
      event.preventDefault();
      if (option && (event.ctrlKey || event.metaKey) && option.href) window.open(option.href, "_blank", "noopener");
      else option?.click();
    }
  });

  menu.querySelector("[data-close-search]").addEventListener("click", () => menu.close());
  menu.addEventListener("click", (event) => {
    if (event.target === menu) menu.close();
  });

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-open-search]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });

  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (menu.open) menu.close();
      else open();
    },
    true,
  );

  // On a page without its own search box, `/` opens the command menu.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable]")) return;
    if (document.querySelector("dialog[open], main input[type=search]")) return;
    event.preventDefault();
    open();
  });
})();
