// Decides what is open, and shows the next one without waiting for the answer. Undoes what was decided.

import { open } from "./opening.js";
import { askForNote, following, form, keepNote, linkTo, note, review, shown } from "./page.js";
import { answered, bringBack, send, take } from "./sending.js";

export function act(name) {
  const button = form()?.querySelector(`[data-act="${name}"]`);
  if (!button) return;
  if (!form().checkValidity()) return form().reportValidity();
  if (form().dataset.noteFor.split(" ").includes(name) && !note().value.trim()) return askForNote(name);
  const pk = shown();
  const link = linkTo(pk);
  const values = new FormData(form());
  if (button.name) values.append(button.name, button.value);
  const address = button.hasAttribute("formaction") ? button.formAction : form().action;
  keepNote();
  const stays = name === "reopen" || name === "take_back" || !link;
  if (stays) {
    send(pk, address, values).then(() => again(pk));
    return;
  }
  const next = following(link);
  take(pk, note().value);
  const sent = send(pk, address, values);
  if (next) open(next);
  else sent.then((done) => done && goOn(pk));
}

// None of those on the page is left.
function goOn(pk) {
  const address = new URL(review.dataset.next, location.href);
  address.searchParams.set("done", pk);
  location.assign(address);
}

// The same one anew, once what was sent is answered.
function again(pk) {
  const link = linkTo(pk);
  if (link) open(link, { afresh: true });
  else location.reload();
}

const undoing = () => document.querySelector("[data-undo]");

export function undo() {
  if (undoing()) undoing().requestSubmit();
  // The answer that brings the button is still under way.
  else answered().then(() => undoing()?.requestSubmit());
}

document.addEventListener("submit", async (event) => {
  const sent = event.target;
  if (sent.matches("[data-undo]")) {
    event.preventDefault();
    const pk = sent.dataset.undo;
    const values = new FormData(sent);
    sent.querySelector("button").disabled = true;
    if (!(await send(pk, sent.action, values))) return;
    const link = bringBack(pk);
    if (link) open(link, { afresh: true });
    else location.assign(document.querySelector(`.told[data-about="${CSS.escape(pk)}"] a`).href);
  } else if (sent.id === "decide") {
    event.preventDefault();
    act(event.submitter?.dataset.act ?? sent.dataset.armed);
  }
});
