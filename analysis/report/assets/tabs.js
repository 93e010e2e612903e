// Make tabs of the page's panels: click, arrow keys, and an address that remembers the tab.

// A panel gets another id than the address has, or the browser would scroll to it and past the tabs.
const panels = [...document.querySelectorAll(".panel")];
const names = panels.map((panel) => panel.id);
const tabs = panels.map((panel) => document.querySelector(`nav.tabs a[href="#${panel.id}"]`));

function showPanel(shown) {
  panels.forEach((panel, i) => {
    panel.hidden = panel !== shown;
    tabs[i].setAttribute("aria-selected", String(panel === shown));
    tabs[i].tabIndex = panel === shown ? 0 : -1;
  });
  drawVisible();
}

function chooseTab(place) {
  const index = (place + tabs.length) % tabs.length;
  history.replaceState(null, "", `#${names[index]}`);
  showPanel(panels[index]);
  tabs[index].focus({ preventScroll: true });
  scrollTo(0, 0);
}

// #search, #table-hyperparameters inside a panel, or #search/12: the trial of that number.
function followAddress() {
  const [id, number] = decodeURIComponent(location.hash.slice(1)).split("/");
  const target = document.getElementById(id);
  const panel = panels[names.indexOf(id)] || (target && target.closest(".panel"));
  showPanel(panel || panels[0]);
  if (target) target.scrollIntoView();
  else scrollTo(0, 0);
  if (number && study && study.trials[number]) openTrial(study.trials[number]);
}

function makeTabs() {
  if (!panels.length) return;
  document.querySelector("nav.tabs").setAttribute("role", "tablist");
  tabs.forEach((tab, i) => {
    tab.id = `tab-${names[i]}`;
    panels[i].id = `panel-${names[i]}`;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panels[i].id);
    panels[i].setAttribute("role", "tabpanel");
    panels[i].setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      chooseTab(i);
    });
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      chooseTab(to);
    });
  });
  addEventListener("hashchange", followAddress);
  followAddress();
}
