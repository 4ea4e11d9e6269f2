// What every page needs: the time zone, copy buttons, print buttons, menus that close when one clicks beside them, keys that lead from page to page.
"use strict";

// The server shows times in the time zone of the browser, unless the reader chose another one.
{
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const secure = location.protocol === "https:" ? "; secure" : "";
  if (zone) document.cookie = `time_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
    button.textContent = "Copied";
  } catch {
    // No clipboard without HTTPS: mark the text, so that one key copies it.
    getSelection().selectAllChildren(source);
    button.textContent = "Press Ctrl C";
  }
  const told = document.getElementById("live-told");
  if (told) told.textContent = button.textContent;
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-print]")) return;
  event.target.closest("details.menu").open = false;
  print();
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = event.target.closest("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (!opener) return;
  // A page with keys of its own shows those, and the others below them.
  const own = opener.dataset.dialog === "page-keys" ? document.getElementById("keys") : null;
  (own ?? document.getElementById(opener.dataset.dialog)).showModal();
});

// `g` and a letter lead to a page, `?` shows which. Heard before the keys of a page, for which the letter is not meant.
(() => {
  const TOGETHER = 1500;
  let begun = -TOGETHER;

  function quiet(event) {
    const typing = 'textarea, select, [contenteditable], input:not([type="checkbox"], [type="radio"])';
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return true;
    return event.target.closest?.(typing) || document.querySelector("dialog[open]");
  }

  function take(event) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "Shift" || quiet(event)) return;
      const second = event.timeStamp - begun < TOGETHER;
      begun = -TOGETHER;
      if (second) {
        const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
        take(event);
        link?.click();
      } else if (event.key === "g") {
        begun = event.timeStamp;
        take(event);
      } else if (event.key === "?" && !document.getElementById("keys")) {
        take(event);
        document.getElementById("page-keys")?.showModal();
      }
    },
    true,
  );
})();
