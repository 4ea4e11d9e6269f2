// Keys of the page of a handoff: j and k open the next and the previous handoff of the list, ? shows all keys.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  const typing = "input, textarea, select, [contenteditable]";
  if (event.target.closest?.(typing) || document.querySelector("dialog[open]")) return;
  const link = document.querySelector(`[data-list-key="${CSS.escape(event.key)}"]`);
  const help = event.key === "?" ? document.getElementById("keys") : null;
  if (!link && !help) return;
  event.preventDefault();
  if (help) help.showModal();
  else link.click();
});
