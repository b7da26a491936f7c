// The filters of the first page. The address holds them: index.html?vendor=nvidia&precision=fp32
"use strict";

const filters = document.getElementById("filters");

function chosen() {
  return [...new FormData(filters)].filter(([, value]) => value);
}

function filter() {
  const rows = [...document.querySelectorAll("table.list tbody")];
  for (const row of rows) row.hidden = chosen().some(([key, value]) => row.dataset[key] !== value);
  const shown = rows.filter((row) => !row.hidden).length;
  filters.querySelector("output").textContent = `${shown} / ${rows.length}`;
}

function remember() {
  const query = new URLSearchParams(chosen()).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

/** Take the filters from the address. A value that no row has is left out. */
function recall() {
  for (const [key, value] of new URLSearchParams(location.search)) {
    const select = filters.elements[key];
    if (select && [...select.options].some((option) => option.value === value)) select.value = value;
  }
}

if (filters) {
  filters.hidden = false;
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("change", () => (filter(), remember()));
  filters.addEventListener("reset", () => setTimeout(() => (filter(), remember())));
  recall();
  filter();
}
