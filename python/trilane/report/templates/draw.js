// Colours are CSS variables, so that the charts follow light, dark and print without a redraw.
const theme = {
  background: "transparent", font: "system-ui, sans-serif", view: { stroke: null },
  axis: { labelColor: "var(--soft)", titleColor: "var(--ink)", gridColor: "var(--line)",
          domainColor: "var(--line)", tickColor: "var(--line)", labelFontSize: 12,
          titleFontSize: 12, titleFontWeight: 500, titlePadding: 10 },
  legend: { labelColor: "var(--ink)", titleColor: "var(--soft)", labelFontSize: 12, titleFontSize: 12 },
};
// A chart in a closed fold has no width: it is drawn when the fold opens.
async function draw(root) {
  for (const place of root.querySelectorAll(".chart:not([data-drawn])")) {
    if (place.closest("details:not([open])")) continue;
    place.dataset.drawn = "";
    await vegaEmbed(place, specs[place.id.slice(6)], { actions: false, config: theme, renderer: "svg" });
  }
}
for (const fold of document.querySelectorAll("details")) {
  fold.addEventListener("toggle", () => fold.open && draw(fold));
}
await draw(document);
document.documentElement.dataset.drawn = "";
