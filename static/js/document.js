// The document tree: opens the place that the address names, even if the page lacks that part, and copies paths,
// pointers and links.
"use strict";

const PLACE = "at-";
const told = document.getElementById("told");

function say(text) {
  if (told) told.textContent = text;
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
    return true;
  } catch {
    // Without HTTPS there is no clipboard. The text is shown selected, so that one key copies it.
    const field = Object.assign(document.createElement("input"), { value: text, readOnly: true, className: "copy-field" });
    field.setAttribute("aria-label", `${what}: press Ctrl C`);
    const dialog = document.createElement("dialog");
    dialog.append(field);
    document.body.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
    field.select();
    return false;
  }
}

// The server writes ids of places in the same way: escaped, except for slashes and characters that need no escape.
function idOf(pointer) {
  const escaped = encodeURIComponent(pointer).replace(/%2F/g, "/");
  return PLACE + escaped.replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

function pointerOf(id) {
  try {
    return decodeURIComponent(id.slice(PLACE.length));
  } catch {
    return "";
  }
}

// An element that is taller than the window is aligned at its top, so that its name is visible.
function intoView(element) {
  const fits = element.getBoundingClientRect().height < innerHeight;
  element.scrollIntoView({ block: fits ? "center" : "start" });
}

function reveal(element) {
  for (let part = element.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  if (element.matches("[data-tree] li")) {
    for (const other of document.querySelectorAll(".entry--wanted")) other.classList.remove("entry--wanted");
    element.classList.add("entry--wanted");
  }
  element.querySelector(":scope > details")?.setAttribute("open", "");
  intoView(element);
  element.querySelector("summary, a:not(.tree-place), button")?.focus({ preventScroll: true });
}

async function fetchPlace(pointer) {
  const section = document.getElementById("document");
  if (!section) return;
  const address = `${location.pathname}?at=${encodeURIComponent(pointer)}`;
  await htmx.ajax("GET", address, { target: "#document", swap: "outerHTML" });
  const found = document.getElementById(idOf(pointer)) || document.querySelector(".entry--wanted");
  if (found) reveal(found);
  else say("The document has no such place.");
}

// #at-/data/items/3 is the id of an element; #at=/data/items/3 is the form that people write.
function go() {
  const hash = location.hash.slice(1);
  if (hash.startsWith("at=")) {
    const pointer = pointerOf(hash);
    const element = document.getElementById(idOf(pointer));
    if (element) reveal(element);
    else fetchPlace(pointer);
    return;
  }
  const element = hash && document.getElementById(hash);
  if (element) {
    if (hash.startsWith(PLACE) || element.closest("details:not([open])")) reveal(element);
    element.querySelector(":scope > details:not([open])")?.setAttribute("open", "");
  } else if (hash.startsWith(`${PLACE}/`)) fetchPlace(pointerOf(hash));
}

addEventListener("hashchange", go);
const wanted = document.querySelector("[data-tree] .entry--wanted");
if (wanted) {
  intoView(wanted);
  // After loading, the browser scrolls to the fragment of the address, so the place is shown again.
  addEventListener("load", () => intoView(wanted));
}
go();

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const hit = event.target.closest("[data-at]");
  if (hit) {
    event.preventDefault();
    history.pushState(null, "", `#${idOf(hit.dataset.at)}`);
    go();
    return;
  }
  const link = event.target.closest("[data-copy-link]");
  if (link) copy(link.href, "Link");
  // A click on a link to the current fragment causes no `hashchange` event.
  const place = event.target.closest(`a[href^="#${PLACE}"]`);
  if (place && place.hash === location.hash) go();
});

// One set of buttons for the whole tree. It moves to the entry under the pointer, or with the focus.
const tools = document.createElement("span");
tools.className = "entry-tools";
for (const [name, label] of [["path", "Copy path"], ["pointer", "Copy pointer"], ["link", "Copy link"]]) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
  button.dataset.take = name;
  tools.append(button);
}

function partsOf(pointer) {
  return pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function dotted(entry) {
  const parts = partsOf(pointerOf(entry.id));
  const labels = [];
  for (let each = entry; each; each = each.parentElement.closest(".entry")) {
    labels.unshift(each.querySelector(":scope > .tree-index, :scope > details > summary > .tree-index") !== null);
  }
  const base = entry.closest("[data-tree]").dataset.base || "";
  return parts.slice(parts.length - labels.length).reduce((text, part, at) => {
    if (labels[at]) return `${text}[${part}]`;
    if (/^[^\s.[\]"]+$/.test(part)) return text ? `${text}.${part}` : part;
    return `${text}["${part.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"]`;
  }, base);
}

function offer(event) {
  const entry = event.target.closest?.("[data-tree] .entry");
  if (!entry || !entry.id.startsWith(`${PLACE}/`) || entry.classList.contains("entry--missing")) return;
  place(entry);
}

// Put the buttons next in the tab order: at the end of a folded entry, but before the children of an open entry.
function place(entry) {
  if (tools.closest(".entry") === entry) return;
  const summary = entry.querySelector(":scope > details[open] > summary");
  if (summary) summary.after(tools);
  else entry.append(tools);
}

document.addEventListener(
  "toggle",
  (event) => {
    const entry = tools.closest(".entry");
    if (!entry || event.target.parentElement !== entry) return;
    tools.remove();
    place(entry);
  },
  true,
);

document.addEventListener("pointerover", (event) => {
  // While a button has the focus, the buttons must not move.
  if (!tools.contains(document.activeElement)) offer(event);
});
document.addEventListener("focusin", (event) => {
  if (!tools.contains(event.target)) offer(event);
});

tools.addEventListener("click", (event) => {
  const entry = tools.closest(".entry");
  const { take } = event.target.dataset;
  if (!entry || !take) return;
  if (take === "path") copy(dotted(entry), "Path");
  else if (take === "pointer") copy(pointerOf(entry.id), "Pointer");
  else {
    const page = document.querySelector("[data-tree]").dataset.page || location.pathname;
    copy(`${location.origin}${page}#${entry.id}`, "Link");
  }
});

// Mark the link of the section that the reader is at.
const links = new Map([...document.querySelectorAll(".sections a[href^='#']")].map((link) => [link.hash.slice(1), link]));
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      for (const [name, link] of links) {
        if (name === target.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }
  },
  { rootMargin: "-15% 0px -75% 0px" },
);
function watchSections() {
  watcher.disconnect();
  for (const name of links.keys()) {
    const section = document.getElementById(name);
    // On wide screens, the sections at the side are visible beside the others, and would confuse the mark.
    const isBeside = section?.closest(".handoff-side") && matchMedia("(min-width: 70rem)").matches;
    if (section && !isBeside) watcher.observe(section);
  }
}
document.addEventListener("htmx:afterSettle", watchSections);
watchSections();
