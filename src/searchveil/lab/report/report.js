// Draws every chart into its place. Expressions are interpreted, not compiled: the page's policy forbids to make code.
const specs = JSON.parse(document.getElementById("specs").textContent);
const options = { actions: false, ast: true, renderer: "svg", defaultStyle: false };

async function draw(place, number) {
  try {
    await vegaEmbed(place, specs[number], options);
  } catch (problem) {
    place.textContent = "This chart could not be drawn; its figures are in the table.";
    console.error(problem);
  }
}

Promise.all(Array.from(document.querySelectorAll(".chart"), draw)).then(() => {
  document.documentElement.dataset.charts = "drawn";
});
