// Short cells of cards whose text takes several lines, as an expression that a browser evaluates.
(() => {
  const lines = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
  };
  return [...document.querySelectorAll(".cards td.short")].filter((cell) => lines(cell) > 1).map((cell) => cell.innerText);
})()
