// Asks for confirmation before typed text in a policy editor is lost: when another editor is opened in its place, and
// when the person leaves the page. Cancel and Discard ask nothing.
"use strict";

const QUESTION = "Leave without saving? What you typed is lost.";

let touched = null;
let sending = false;

function unsaved() {
  if (sending) return false;
  return Boolean(touched?.isConnected || document.querySelector("[data-guard='unsaved']"));
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form");
  if (form?.querySelector("[data-guard]")) touched = form;
});

document.addEventListener(
  "click",
  (event) => {
    const link = event.target.closest("a[hx-get]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !unsaved()) return;
    if (link.hasAttribute("data-discards") || confirm(QUESTION)) {
      touched = null;
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);

document.addEventListener("submit", (event) => {
  if (event.target.querySelector("[data-guard]")) sending = true;
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig.verb === "post") sending = true;
});

// After a refused save, the page gets an editor that is marked as unsaved by the server.
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.requestConfig.verb !== "post") return;
  const goesElsewhere = event.detail.xhr?.getResponseHeader("HX-Redirect");
  if (!goesElsewhere) sending = false;
});

addEventListener("beforeunload", (event) => {
  if (unsaved()) event.preventDefault();
});
