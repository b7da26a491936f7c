// Cells of cards that reach into the next cell, short cells whose text takes several lines, and numbers that break
// within a word; a browser evaluates this.
(() => {
  const GAP = 12; // pixels between two cells
  const lines = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
  };
  const texts = (cell) => [...cell.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
  const apart = (node) => [...node.data.matchAll(/[^ \n]+/g)].some((word) => lines(node, word.index, word.index + word[0].length) > 1);
  const wide = (cell) => cell.scrollWidth > cell.clientWidth + GAP;
  const broken = (cell) => cell.matches(".short") && lines(cell, 0, cell.childNodes.length) > 1;
  const torn = (cell) => cell.matches(".number") && texts(cell).some(apart);
  return [...document.querySelectorAll(".cards td")].filter((cell) => wide(cell) || broken(cell) || torn(cell)).map((cell) => cell.innerText);
})()
