// A mixture of experts: the experts that each layer routes each token to.
import { useMemo, useState } from "preact/hooks";
import { words } from "../strings";
import type { LookToken, Routing } from "../types";
import { visible } from "../ui/controls";
import { matrixCells } from "./positions";

export function RoutingCard({ routing, tokens }: { routing: Routing; tokens: LookToken[] }) {
  const [at, setAt] = useState<[number, number] | null>(null);
  const probabilities = useMemo(() => routing.layers.map((l) => ({ cells: matrixCells(l.probabilities), high: l.probabilities.high })), [routing]);
  const chosen = (layer: number, token: number) =>
    routing.layers[layer]!.choices.slice(token * routing.per_token, (token + 1) * routing.per_token);
  return (
    <section class="card" aria-labelledby="routing-title">
      <header>
        <h2 id="routing-title">{words.look.routing}</h2>
      </header>
      <p class="hint">{words.look.routingLead(routing.per_token, routing.experts)}</p>
      <div class="routing-scroll" tabIndex={0} role="group" aria-label={words.look.routing}>
        <table class="routing">
          <thead>
            <tr>
              <th scope="col">{words.look.layer}</th>
              {tokens.map((t, i) => (
                <th scope="col" key={i}>
                  {visible(t.text)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {routing.layers.map((_, l) => (
              <tr key={l}>
                <th scope="row">{l + 1}</th>
                {tokens.map((t, i) => (
                  <td key={i} onPointerEnter={() => setAt([l, i])} title={words.look.routed(visible(t.text), l + 1, chosen(l, i).map((e) => e + 1).join(", "))}>
                    {chosen(l, i).map((e) => (
                      <span key={e} class="expert" style={{ "--hue": `${(e * 360) / routing.experts}`, opacity: 0.35 + 0.65 * probabilities[l]!.cells.at(i, e) }}>
                        {e + 1}
                      </span>
                    ))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint" aria-live="polite">
        {at && words.look.routed(visible(tokens[at[1]]?.text ?? ""), at[0] + 1, chosen(at[0], at[1]).map((e) => e + 1).join(", "))}
      </p>
    </section>
  );
}
