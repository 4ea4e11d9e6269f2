// The queue by keyboard: j k move, a d decide, x select, / search, ? help. Quiet while somebody types and in dialogs.
"use strict";

const keys = document.getElementById("keys");
const links = () => [...document.querySelectorAll(".queue-link")];
const current = () => document.querySelector('.queue-link[aria-current="true"]');
const selected = () => document.querySelectorAll(".queue-select:checked");

let loading = false;
let waitingKey = "";
let sent = false;

document.documentElement.classList.add("has-keys");
current()?.scrollIntoView({ block: "nearest" });

function typing(element) {
  return element.isContentEditable || element.matches('textarea, select, input:not([type="checkbox"], [type="radio"])');
}

function move(step) {
  const all = links();
  const at = all.indexOf(current());
  const next = at < 0 ? all[0] : all[at + step];
  if (!next) return;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  next.click();
}

function decide(decision) {
  if (selected().length) {
    document.querySelector(`[data-several="${decision}"]`).focus();
    return;
  }
  const button = document.querySelector(`#item [data-decision="${decision}"]`);
  if (!button || sent) return;
  const note = button.form.elements.note;
  if (button.form.dataset.noteFor === decision && !note.value.trim()) {
    note.focus();
    return;
  }
  button.form.requestSubmit(button);
}

function select() {
  const box = current()?.closest(".queue-row").querySelector(".queue-select");
  if (box) box.checked = !box.checked;
}

const actions = {
  j: () => move(1),
  k: () => move(-1),
  a: () => decide("approve"),
  d: () => decide("decline"),
  x: select,
  "/": () => document.getElementById("q").select(),
  "?": () => keys.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.id === "decide-note") {
      event.target.form.querySelector("[data-decision]").click();
    }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  // A decision must not hit the handoff that is just going away.
  if (loading && "ad".includes(event.key)) waitingKey = event.key;
  else actions[event.key]();
});

// Only the item changes, so that the queue keeps its place; in a new tab, or without this script, the link is a link.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-open]");
  if (opener) keys.showModal();
  const link = event.target.closest(".queue-link");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (!matchMedia("(min-width: 64rem)").matches) return;
  event.preventDefault();
  open(link);
});

async function open(link) {
  loading = true;
  waitingKey = "";
  current()?.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  await htmx.ajax("GET", link.getAttribute("href"), { target: "#item", swap: "innerHTML" });
  if (link !== current()) return;
  loading = false;
  history.replaceState(null, "", link.href);
  document.getElementById("item").scrollTop = 0;
  if (waitingKey) actions[waitingKey]();
  waitingKey = "";
}

document.addEventListener("submit", (event) => {
  if (event.target.id !== "decide" && event.target.id !== "several") return;
  if (sent) event.preventDefault();
  sent = true;
});

addEventListener("pageshow", () => {
  sent = false;
});
