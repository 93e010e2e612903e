// Begin: everything above only defines.

document.documentElement.classList.add("script");
document.body.append(tip);
document.querySelectorAll("table:not(.trials):not(.picture)").forEach(makeSortable);
document.querySelectorAll("figure").forEach(makeZoomable);
offerThemes();
study = readStudy();
if (study && study.trials.length) {
  const searched = study.trials.find((trial) => trial.role === "search" && !trial.mark);
  chosen.place = study.places.length > 1 ? study.places[0] : "";
  const first = study.words.loss.find((loss) => study.trials.some((trial) => trial.loss === loss && trial.role === "search"));
  chosen.loss = searched && first ? first : "";
  offerFilters(document.querySelector(".filters"));
  document.getElementById("more").addEventListener("click", () => { everything = true; showRows(); });
  document.getElementById("trial").addEventListener("close", () => history.replaceState(null, "", "#search"));
  showCharts();
  showRows();
  document.querySelectorAll(".curves").forEach(showCurves);
}
makeTabs();
addEventListener("resize", drawVisible);
