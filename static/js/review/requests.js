// Sends a decision while the next handoff is already shown. A refused decision brings its row and its note back.

import { complain, isTold, tell } from "./messages.js";
import { forgetDraft, keepDraft, row, rowsList } from "./page.js";

const FORGOTTEN = 500;

const removed = [];
let sending = Promise.resolve();

const token = () => document.querySelector("[name=csrfmiddlewaretoken]").value;

export async function post(address, values, target) {
  const body = values instanceof FormData ? values : new URLSearchParams(values);
  const headers = { "HX-Request": "true", "HX-Target": target, "X-CSRFToken": token() };
  const answer = await fetch(address, { method: "POST", body, headers, keepalive: true });
  const text = await answer.text();
  if (!answer.headers.has("HX-Refresh")) return { status: answer.status, text };
  // The person was signed out meanwhile, so the server changed nothing.
  location.reload();
  return { status: 401, text };
}

// Requests are sent one after the other, so that an undo follows the decision that it undoes.
export function send(pk, address, values) {
  const sent = sending.then(() => post(address, values, "told"));
  sending = sent.then(
    (answer) => {
      if (answer.status < 500 && isTold(answer.text)) tell(answer.text);
      else complain(pk, `The server answered ${answer.status}. Open the handoff to see whether it was decided.`);
      if (answer.status >= 400) bringBack(pk);
      else forgetDraft(pk);
      return answer.status < 400;
    },
    () => {
      complain(pk, "The connection broke off. Open the handoff to see whether it was decided.");
      bringBack(pk);
      return false;
    },
  );
  return sending;
}

export const answered = () => sending;

// The rows of decided handoffs. A row returns if the server refuses the decision, or if the decision is undone.

export function take(pk, written) {
  const element = row(pk);
  if (!element) return;
  removed.push({ pk, element, before: element.nextElementSibling, written });
  if (removed.length > FORGOTTEN) removed.shift();
  element.querySelector(".queue-link").removeAttribute("aria-current");
  element.remove();
  countFound(-1);
}

// The text "34 found" counts the listed rows.
function countFound(change) {
  const found = document.getElementById("queue-found");
  if (found) found.textContent = found.textContent.replace(/\d+/, (number) => Math.max(0, Number(number) + change));
}

export function bringBack(pk) {
  const at = removed.findIndex((each) => each.pk === pk);
  if (at < 0) return null;
  const [{ element, before, written }] = removed.splice(at, 1);
  if (written) keepDraft(pk, written);
  if (before?.isConnected) before.before(element);
  else rowsList.prepend(element);
  countFound(1);
  return element.querySelector(".queue-link");
}

export const isTaken = (pk) => removed.some((each) => each.pk === pk);
