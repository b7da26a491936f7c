// Every kind of text whose contrast to its ground is below 4.5, as an expression that a browser evaluates.
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (channel) => (channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (element) => {
    for (let here = element; here; here = here.parentElement) {
      const colour = rgba(getComputedStyle(here).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const texts = "p, h1, h2, h3, h4, th, th button, td, li, .chip, figcaption, svg text, summary, pre";
  const poor = new Set();
  for (const element of document.querySelectorAll(texts)) {
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const colours = [rgba(element.closest("svg") ? style.fill : style.color), ground(element)];
    const [low, high] = colours.map(luminance).sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) poor.add(`${element.tagName} ${element.getAttribute("class")} ${contrast.toFixed(2)}`);
  }
  return [...poor];
})()
