import { render } from "preact";
import { openStore } from "runkeep";
import { App } from "./components/App.js";
import { messageOf } from "./errors.js";
import { watchWorkers } from "./kill.js";
import { Model } from "./model.js";

const root = document.getElementById("app")!;
const watch = watchWorkers();
const patience = setTimeout(() => {
  root.firstElementChild!.textContent =
    "Still opening the store. If the console is open in another tab that the browser has frozen, or that is in a debugger, close it there.";
}, 1500);

try {
  const model = new Model(await openStore({ name: "console" }), watch);
  await model.start();
  clearTimeout(patience);
  root.replaceChildren();
  render(<App model={model} />, root);
} catch (error) {
  clearTimeout(patience);
  root.replaceChildren();
  render(
    <div class="fatal" role="alert">
      <h1>The store could not be opened</h1>
      <p>{messageOf(error)}</p>
      <button type="button" onClick={() => location.reload()}>
        Try again
      </button>
    </div>,
    root,
  );
}
