// The parts of the page: the rows of the queue, the shown handoff, its form and its note.

export const review = document.getElementById("review");
export const pane = document.getElementById("item");
export const rowsList = document.getElementById("queue-rows");
export const several = document.getElementById("several");

export const links = () => [...review.querySelectorAll(".queue-link")];
export const current = () => review.querySelector('.queue-link[aria-current="true"]');
export const rowOf = (link) => link?.closest(".queue-row");
export const row = (pk) => document.querySelector(`.queue-row[data-row="${CSS.escape(pk)}"]`);
export const linkTo = (pk) => row(pk)?.querySelector(".queue-link");
export const shown = () => pane.querySelector("[data-item]")?.dataset.item ?? "";
export const version = () => pane.querySelector("[data-version]")?.dataset.version;
export const form = () => document.getElementById("decide");
export const note = () => document.getElementById("decide-note");

export const isGone = (row) => "liveGone" in row.dataset;

export function isFree(link) {
  return !isGone(rowOf(link)) && !rowOf(link).matches("[data-own]") && !rowOf(link).querySelector("[data-held]");
}

// Return the next row that waits for this person and that nobody else has open: below the row, or else from the top.
export function following(link) {
  const all = links();
  const at = all.indexOf(link);
  return [...all.slice(at + 1), ...all.slice(0, Math.max(at, 0))].find(isFree);
}

export function mark(link) {
  current()?.removeAttribute("aria-current");
  link?.setAttribute("aria-current", "true");
  link?.scrollIntoView({ block: "nearest" });
}

export function parsed(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return [...holder.content.children];
}

// Notes are kept per handoff until they are sent. The key contains the person, because another person may sign in in
// the same tab.

const draftOf = (pk) => `note ${review.dataset.tenant} ${review.dataset.person} ${pk}`;

export const keepDraft = (pk, written) => sessionStorage.setItem(draftOf(pk), written);
export const forgetDraft = (pk) => sessionStorage.removeItem(draftOf(pk));

export function keepNote() {
  if (!note() || !shown()) return;
  if (note().value) keepDraft(shown(), note().value);
  else forgetDraft(shown());
}

export function forgetNote(pk) {
  forgetDraft(pk);
  if (note() && shown() === pk) note().value = "";
}

export function restoreNote() {
  if (note() && !note().value) note().value = sessionStorage.getItem(draftOf(shown())) ?? "";
}

export function takeNote(button) {
  if (!button || !note()) return;
  note().value = button.dataset.take;
  keepNote();
  note().focus();
}

// The action that Ctrl Enter sends from the note.

const SENDS = { pass: "reassigns it", reopen: "reopens it" };
const sends = (name) => form().querySelector(`[data-act="${name}"]`)?.dataset.sends ?? SENDS[name];
const ASKS = {
  approve: "Approving a rejected handoff needs a note.",
  pass: "Reassigning needs a note: what the next person has to know.",
  reopen: "Reopening needs a note.",
};

export function arm(name) {
  const told = document.getElementById("decide-armed");
  if (!told || !name) return;
  form().dataset.armed = name;
  told.textContent = `Ctrl Enter ${sends(name)}.`;
}

export function askForNote(name) {
  arm(name);
  document.getElementById("decide-armed").textContent = `${ASKS[name]} Ctrl Enter ${sends(name)}.`;
  note().focus();
}
