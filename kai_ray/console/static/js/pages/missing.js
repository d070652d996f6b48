import { h } from "../dom.js";
import { link } from "../router.js";

export function page() {
  return {
    title: "Not found",
    render: () => h("div", { class: "empty" }, h("h1", {}, "There is no such page"),
      h("p", {}, h("a", { href: link([]) }, "To the overview"))),
  };
}
