// Uploads logs that are dropped on the form, and shows the progress. Without this script, the browser sends the form by
// itself.
"use strict";

const form = document.getElementById("log-form");
const input = form.elements.log;
const area = form.querySelector("[data-drop]");
const sending = document.getElementById("log-sending");
const bar = document.getElementById("log-progress");
const sent = document.getElementById("log-sent");
const told = document.getElementById("log-status");
const tooLarge = document.getElementById("log-too-large");
const MEGABYTE = 1024 * 1024;
let underWay = false;
let startedAt = 0;
let toldQuarter = 0;

const chosen = () => [...input.files].reduce((sum, file) => sum + file.size, 0);
const megabytes = (bytes) => `${(bytes / MEGABYTE).toFixed(bytes < 10 * MEGABYTE ? 1 : 0)} MB`;

function left(loaded, total) {
  const seconds = ((performance.now() - startedAt) / 1000) * (total / loaded - 1);
  if (!Number.isFinite(seconds) || seconds < 2) return "";
  return seconds < 90 ? `, ${Math.round(seconds)} s left` : `, ${Math.round(seconds / 60)} min left`;
}

function show(isUnderWay) {
  underWay = isUnderWay;
  sending.hidden = !isUnderWay;
  for (const element of area.querySelectorAll("input, button")) element.disabled = isUnderWay;
}

function progress(loaded, total) {
  const share = loaded / total;
  if (share >= 1) {
    bar.removeAttribute("value");
    sent.textContent = told.textContent = "All of it has arrived and is being stored.";
    return;
  }
  bar.value = 100 * share;
  sent.textContent = `${megabytes(loaded)} of ${megabytes(total)} sent (${Math.floor(100 * share)} %)${left(loaded, total)}`;
  // Screen readers get the progress only at each quarter.
  const quarter = Math.floor(share * 4);
  if (quarter > toldQuarter) told.textContent = `${quarter * 25} % sent`;
  toldQuarter = quarter;
}

form.addEventListener("htmx:beforeRequest", (event) => {
  tooLarge.hidden = chosen() <= Number(form.dataset.most);
  document.getElementById("log-told").replaceChildren();
  if (!tooLarge.hidden || underWay) {
    event.preventDefault();
    return;
  }
  startedAt = performance.now();
  toldQuarter = 0;
  bar.value = 0;
  sent.textContent = "Starting";
  show(true);
});

// The progress of the answer triggers the same event, and its total is smaller than the sent files.
form.addEventListener("htmx:xhr:progress", (event) => {
  const { lengthComputable, loaded, total } = event.detail;
  if (underWay && lengthComputable && total >= chosen()) progress(loaded, total);
});

// From here on, the page may change to the import without a confirmation.
form.addEventListener("htmx:beforeOnLoad", () => {
  underWay = false;
});

form.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  if (xhr.status < 400) return;
  event.detail.isError = false;
  // A refusal of the product is a short fragment with the reason. An error of a proxy is a whole page, which is not
  // shown.
  event.detail.shouldSwap = xhr.getResponseHeader("Content-Type")?.startsWith("text/html") && !/<html/i.test(xhr.responseText);
  if (event.detail.shouldSwap) return;
  if (xhr.status === 413) tooLarge.hidden = false;
  else say(`The server answered ${xhr.status}. Nothing was imported; try again, or use the command.`);
});

form.addEventListener("htmx:afterRequest", () => {
  show(false);
  told.textContent = "";
});

form.addEventListener("htmx:sendError", () => {
  told.textContent = "";
  say("The connection broke off. Nothing was imported; send it again.");
});

form.addEventListener("htmx:sendAbort", () => {
  say("Cancelled. Nothing was imported.");
});

function say(text) {
  const line = document.createElement("p");
  line.setAttribute("role", "alert");
  line.textContent = text;
  document.getElementById("log-told").replaceChildren(line);
}

document.getElementById("log-cancel").addEventListener("click", () => {
  htmx.trigger(form, "htmx:abort");
  input.focus();
});

for (const kind of ["dragenter", "dragover"]) {
  area.addEventListener(kind, (event) => {
    if (![...event.dataTransfer.types].includes("Files") || underWay) return;
    event.preventDefault();
    area.classList.add("log-drop--over");
  });
}
for (const kind of ["dragleave", "drop"]) {
  area.addEventListener(kind, () => area.classList.remove("log-drop--over"));
}
area.addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length || underWay) return;
  event.preventDefault();
  input.files = event.dataTransfer.files;
  form.requestSubmit();
});

addEventListener("beforeunload", (event) => {
  if (underWay) event.preventDefault();
});
