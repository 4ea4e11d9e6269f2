// What every page needs: copy buttons, and menus that close when one clicks beside them.
"use strict";

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

// They do nothing without JavaScript, so they are not there without it.
for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
