// A handoff's page by keys: j and k lead along its list, ? shows all keys of the page.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  const typing = "input, textarea, select, [contenteditable]";
  if (event.target.closest?.(typing) || document.querySelector("dialog[open]")) return;
  const link = document.querySelector(`[data-along="${CSS.escape(event.key)}"]`);
  const help = event.key === "?" ? document.getElementById("keys") : null;
  if (!link && !help) return;
  event.preventDefault();
  if (help) help.showModal();
  else link.click();
});
