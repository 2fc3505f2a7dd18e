"use strict";
// Every column of a table with two rows or more can be sorted by its head; groups of rows keep their places.
for (const table of document.querySelectorAll("table")) {
  const bodies = [...table.tBodies];
  if (!bodies.some((body) => body.rows.length > 1)) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, bodies, head, column));
  });
}

function sort(table, bodies, head, column) {
  const number = head.classList.contains("n");
  const before = head.getAttribute("aria-sort");
  // Numbers begin with the largest, words with A.
  const descending = before ? before === "ascending" : number;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  for (const body of bodies) {
    const rows = [...body.rows].map((row) => [key(row.cells[column], number), row]);
    rows.sort(([one], [other]) => compare(one, other, descending));
    body.append(...rows.map(([, row]) => row));
  }
}

function key(cell, number) {
  const text = cell.textContent.trim();
  return number ? parseFloat(text.replaceAll(",", "")) : text;
}

function compare(one, other, descending) {
  if (typeof one === "number") {
    // What is no number comes last in both directions.
    if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other);
    return descending ? other - one : one - other;
  }
  const order = one.localeCompare(other, "en", { numeric: true });
  return descending ? -order : order;
}
