// Cells of cards that reach into the next cell, and short cells whose text takes several lines; a browser evaluates this.
(() => {
  const GAP = 12; // pixels between two cells
  const lines = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
  };
  const wide = (cell) => cell.scrollWidth > cell.clientWidth + GAP;
  const broken = (cell) => cell.matches(".short") && lines(cell) > 1;
  return [...document.querySelectorAll(".cards td")].filter((cell) => wide(cell) || broken(cell)).map((cell) => cell.innerText);
})()
