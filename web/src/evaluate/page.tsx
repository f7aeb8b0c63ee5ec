// Evaluate: results of evaluations, and studies in which people rate answers.
import { place } from "../place";
import { useWatched } from "../state";
import { words } from "../strings";
import { Rate } from "./rate";
import { Results } from "./results";

const tabs = ["results", "rate"] as const;

export function EvaluatePage() {
  const [, tab, name] = useWatched(place);
  const here = tab === "rate" ? "rate" : "results";
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
      {here === "results" ? <Results name={name} /> : <Rate study={name} />}
    </div>
  );
}
