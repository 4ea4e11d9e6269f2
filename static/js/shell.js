// Behaviour of every page: the time zone, copy buttons, print buttons, menus that close on a click outside, and keys
// that open pages.
"use strict";

// The server shows times in the browser's time zone, unless the reader chose another time zone.
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
    // Without HTTPS there is no clipboard. The text is selected, so that one key copies it.
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
  // A page with its own keys shows its own dialog, which also lists the keys of every page.
  const own = opener.dataset.dialog === "page-keys" ? document.getElementById("keys") : null;
  (own ?? document.getElementById(opener.dataset.dialog)).showModal();
});

// `g` and a letter open a page, and `?` shows the keys. The listener captures the event, so that the letter does not
// also trigger a key of the page.
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
