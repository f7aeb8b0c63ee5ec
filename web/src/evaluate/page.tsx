// Evaluate: results of evaluations, studies in which people rate answers, and traces of agents.
import { address } from "../address";
import { useWatched } from "../state";
import { words } from "../strings";
import { Agents } from "./agents";
import { Rate } from "./rate";
import { Results } from "./results";

const tabs = ["results", "rate", "agents"] as const;

export function EvaluatePage() {
  const [, tab, name] = useWatched(address);
  const here = tabs.find((one) => one === tab) ?? "results";
  return (
    <div class="sheet evaluate">
      <h1>{words.evaluate.title}</h1>
      <nav class="tabs" aria-label={words.evaluate.title}>
        {tabs.map((one) => (
          <a key={one} href={`#/evaluate/${one}`} aria-current={one === here ? "page" : undefined}>
            {words.evaluate[one]}
          </a>
        ))}
      </nav>
      {here === "results" && <Results name={name} />}
      {here === "rate" && <Rate study={name} />}
      {here === "agents" && <Agents name={name} />}
    </div>
  );
}
