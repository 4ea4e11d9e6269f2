// Decides the open handoff, and shows the next handoff without waiting for the answer. Undoes decisions.

import { open } from "./item.js";
import { tellNot } from "./messages.js";
import { askForNote, following, forgetNote, form, keepNote, linkTo, note, review, row, shown } from "./page.js";
import { answered, bringBack, send, take } from "./requests.js";

function whyNot(name) {
  if (!shown()) return "No handoff is open.";
  if (!form()) return "This handoff does not wait for a person: there is nothing to decide.";
  if (form().querySelector('[data-act="reopen"]')) return "This handoff is decided already: o reopens it, with a note.";
  if (name === "reopen") return "This handoff waits already: there is nothing to reopen.";
  if (name === "resend" || name === "handled") return "The document can be read, or the handoff is handled already: approve or decline it.";
  if (name === "pass") return "This handoff is reassigned already.";
  return document.getElementById("decide-why")?.textContent.trim() ?? "This handoff can’t be approved.";
}

export function act(name) {
  const button = form()?.querySelector(`[data-act="${name}"]`);
  if (!button) return tellNot(whyNot(name));
  if (!form().checkValidity()) return form().reportValidity();
  // A person to whom a handoff is assigned can read the reason on the page. A handoff that is assigned to nobody needs
  // a note with the reason.
  const needsNote = form().dataset.noteFor.split(" ").includes(name) || (name === "pass" && !form().elements.to.value);
  if (needsNote && !note().value.trim()) return askForNote(name);
  const pk = shown();
  const link = linkTo(pk);
  const values = new FormData(form());
  if (button.name) values.append(button.name, button.value);
  const address = button.hasAttribute("formaction") ? button.formAction : form().action;
  keepNote();
  const stays = name === "reopen" || name === "take_back" || !link;
  if (stays) {
    send(pk, address, values).then((done) => {
      // The note was the reason for reopening. The next decision needs a note of its own.
      if (done && name === "reopen") forgetNote(pk);
      if (done) row(pk)?.querySelector(".queue-passed")?.remove();
      again(pk, done);
    });
    return;
  }
  const next = following(link);
  take(pk, note().value);
  const sent = send(pk, address, values);
  if (next) open(next);
  else sent.then((done) => done && goOn(pk));
}

// No undecided handoff is left on the page, so the server chooses the next one.
function goOn(pk) {
  const address = new URL(review.dataset.next, location.href);
  address.searchParams.set("done", pk);
  location.assign(address);
}

// Show the same handoff again after the answer. A handoff without a row is shown by the address in the notice, whose
// page also shows the result.
function again(pk, done) {
  const link = bringBack(pk) ?? linkTo(pk);
  if (link) return open(link, { afresh: true });
  const told = document.querySelector(`.told[data-about="${CSS.escape(pk)}"] a`);
  if (!done || !told) return;
  const address = new URL(told.href);
  address.searchParams.set("done", pk);
  location.assign(address);
}

// Undo the last change, as far back as the server allows. Requests that are still under way are answered first.
export async function undo() {
  await answered();
  const button = document.querySelector("#told [data-undo]");
  if (button) return button.requestSubmit();
  if (!review.dataset.undoLast) return;
  const done = await send("", review.dataset.undoLast, new URLSearchParams(location.search));
  const pk = document.querySelector("#told [data-about]")?.dataset.about;
  if (done && pk) again(pk, done);
}

document.addEventListener("submit", async (event) => {
  const sent = event.target;
  if (sent.matches("[data-undo]")) {
    event.preventDefault();
    const pk = sent.dataset.undo;
    const values = new FormData(sent);
    sent.querySelector("button").disabled = true;
    if (await send(pk, sent.action, values)) again(pk, true);
    else sent.querySelector("button").disabled = false;
  } else if (sent.id === "decide") {
    event.preventDefault();
    act(event.submitter?.dataset.act ?? sent.dataset.armed);
  }
});
