// Shows the changes of other people: decided rows are crossed out, and new handoffs are announced without moving a row.
// Also updates the ages of the rows.

import { isGone, links, review, rowOf, rowsList } from "./page.js";
import { isTaken } from "./requests.js";

const EACH_MINUTE = 60000;
const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
];

const rows = () => links().map(rowOf);

let heard = null;

const ids = (text) => new Set(text.split(" ").filter(Boolean));

// Only rows in `known` change, because the answer says nothing about the other rows.
function crossOut(gone, known) {
  for (const each of known) {
    if (isGone(each) === gone.has(each.dataset.row)) continue;
    each.toggleAttribute("data-live-gone");
    const sign = each.querySelector(".queue-hold");
    if (isGone(each)) {
      sign.removeAttribute("data-held");
      sign.innerHTML = '<span class="tag tag--quiet">no longer waiting</span>';
    } else if (!sign.hasAttribute("data-held")) sign.replaceChildren();
  }
}

document.addEventListener("live:changed", ({ detail: asked }) => {
  const now = document.getElementById("queue-now");
  if (!now || !("rows" in now.dataset)) return;
  const listed = ids(now.dataset.rows);
  // If only the menu changed, the element is from an earlier answer, which was about other rows.
  if (now !== heard) {
    crossOut(
      ids(now.dataset.gone),
      rows().filter((each) => asked.includes(each) || listed.has(each.dataset.row)),
    );
  }
  heard = now;
  const known = new Set(rows().map((each) => each.dataset.row));
  const fresh = [...listed].filter((pk) => !known.has(pk) && !isTaken(pk)).length;
  const news = document.getElementById("queue-news");
  if (!news || !rowsList) return;
  // If the list continues below, new handoffs appear there anyway, as long as one of the shown rows still waits.
  news.hidden = !fresh || (rowsList.querySelector(".queue-more") && !rows().every(isGone));
  const isExact = "last" in now.dataset;
  news.querySelector("span").textContent = `${fresh}${isExact ? "" : "+"} more wait${isExact && fresh === 1 ? "s" : ""}.`;
});

// Ages follow the server's clock, because the clock of the reader may be wrong.
const ahead = Date.now() - Number(review.dataset.now) * 1000;

function waited(seconds) {
  const [unit, length] = UNITS.find(([, each]) => seconds >= each) ?? ["s", 1];
  return `${Math.max(0, Math.floor(seconds / length))} ${unit}`;
}

setInterval(() => {
  if (document.hidden) return;
  for (const age of review.querySelectorAll(".queue-age")) {
    age.textContent = waited((Date.now() - ahead - Date.parse(age.dateTime)) / 1000);
  }
}, EACH_MINUTE);
