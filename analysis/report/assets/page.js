// Sort tables, enlarge figures, switch between light and dark: the page reads without any of it.
"use strict";

function sortKey(cell) {
  const text = (cell.dataset.value || cell.textContent).trim().replace(/[−–]/g, "-").replace(/,/g, "");
  const number = text.match(/^[+-]?\d*\.?\d+(e[+-]?\d+)?/i);
  return number ? parseFloat(number[0]) : text === "-" || text === "" ? null : text.toLowerCase();
}

function compare(one, other) {
  if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
  return typeof one === "number" ? -1 : 1;
}

function sortBy(table, head, column) {
  const down = head.getAttribute("aria-sort") === "ascending";
  table.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, index) => ({ row, index, key: sortKey(row.cells[column]) }));
  rows.sort((a, b) => {
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.index - b.index; // what is missing stays last
    return (down ? -1 : 1) * compare(a.key, b.key) || a.index - b.index;
  });
  rows.forEach(({ row }) => body.append(row));
}

function makeSortable(table) {
  const heads = table.tHead && table.tHead.rows.length ? [...table.tHead.rows[table.tHead.rows.length - 1].cells] : [];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.classList.add("sorts");
    head.title = "sort by this column";
    head.addEventListener("click", () => sortBy(table, head, column));
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sortBy(table, head, column);
    });
  });
}

function makeZoomable(figure) {
  const button = document.createElement("button");
  button.className = "zoom";
  const set = (large) => {
    figure.classList.toggle("large", large);
    document.body.classList.toggle("still", large);
    button.textContent = large ? "close" : "enlarge";
  };
  button.addEventListener("click", () => set(!figure.classList.contains("large")));
  figure.querySelector("svg, img").addEventListener("dblclick", () => set(!figure.classList.contains("large")));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && figure.classList.contains("large")) set(false);
  });
  set(false);
  figure.prepend(button);
}

function offerThemes() {
  const button = document.createElement("button");
  const dark = () => document.documentElement.dataset.theme === "dark";
  const show = () => {
    button.textContent = dark() ? "light" : "dark";
    repaint();
  };
  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  button.className = "theme";
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  show();
  document.querySelector("header").prepend(button);
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
