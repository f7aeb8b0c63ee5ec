// Agents: the trace of a run, updated during the run, and the form that answers the agent's requests.
import { useState } from "preact/hooks";
import { get, post } from "../api";
import { useInterval } from "../state";
import { number, words } from "../strings";
import { ErrorMessage } from "../ui/controls";

interface ListedAgent {
  name: string;
  question: string;
  changed: number;
}

interface Step {
  task?: number;
  thought: string;
  tool?: string;
  input?: unknown;
  answer?: string;
  observation?: string;
  approval?: string;
}

interface Request {
  number: number;
  question?: string;
  tool?: string;
  input?: unknown;
}

interface Line {
  question?: string;
  plan?: string[];
  step?: Step;
  request?: Request;
  reply?: { number: number };
  end?: string;
  answer?: string;
  reason?: string;
  tokens?: number;
  seconds?: number;
}

const pollMilliseconds = 1000;

function StepView({ step, stepNumber }: { step: Step; stepNumber: number }) {
  return (
    <li class="card step">
      <h3>{words.evaluate.step(stepNumber, step.task === undefined ? null : step.task + 1)}</h3>
      {step.thought && <p>{step.thought}</p>}
      {step.tool && (
        <p>
          <b>{step.tool}</b> <code>{JSON.stringify(step.input)}</code>
        </p>
      )}
      {step.approval && <p class="hint">{words.evaluate.approval(step.approval === "yes")}</p>}
      {step.observation && (
        <details open={step.observation.length < 600}>
          <summary>{words.evaluate.observation}</summary>
          <pre>{step.observation}</pre>
        </details>
      )}
    </li>
  );
}

function RequestForm({ name, request, onDone }: { name: string; request: Request; onDone: () => void }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const send = (answer: object) => {
    setBusy(true);
    void post(`/makar/agents/${encodeURIComponent(name)}/answers`, { number: request.number, ...answer })
      .then(onDone, setError)
      .finally(() => setBusy(false));
  };
  return (
    <section class="card waiting" role="alert">
      <h3>{request.tool ? words.evaluate.confirmTool : words.evaluate.agentAsks}</h3>
      <ErrorMessage error={error} />
      {request.tool ? (
        <>
          <p>
            <b>{request.tool}</b> <code>{JSON.stringify(request.input)}</code>
          </p>
          <button type="button" class="primary" disabled={busy} onClick={() => send({ allow: true })}>
            {words.evaluate.allow}
          </button>{" "}
          <button type="button" disabled={busy} onClick={() => send({ allow: false })}>
            {words.evaluate.deny}
          </button>
        </>
      ) : (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            send({ text });
          }}
        >
          <p>{request.question}</p>
          <label>
            {words.evaluate.yourAnswer} <input value={text} maxLength={10000} onInput={(e) => setText(e.currentTarget.value)} />
          </label>{" "}
          <button class="primary" disabled={busy || !text}>
            {words.evaluate.submit}
          </button>
        </form>
      )}
    </section>
  );
}

function Trace({ name }: { name: string }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [error, setError] = useState<unknown>(null);
  const load = () =>
    void get<{ lines: Line[] }>(`/makar/agents/${encodeURIComponent(name)}`).then((found) => {
      setLines(found.lines);
      setError(null);
    }, setError);
  useInterval(load, pollMilliseconds, [name]);
  const last = lines[lines.length - 1];
  const steps = lines.flatMap((line) => (line.step ? [line.step] : []));
  const plan = lines.find((line) => line.plan)?.plan;
  return (
    <div class="trace">
      <ErrorMessage error={error} />
      <h2>{lines[0]?.question}</h2>
      {plan && (
        <ol class="plan">
          {plan.map((task, i) => (
            <li key={i}>{task}</li>
          ))}
        </ol>
      )}
      <ol class="steps">
        {steps.map((step, i) => (
          <StepView key={i} step={step} stepNumber={i + 1} />
        ))}
      </ol>
      {last?.request && <RequestForm key={last.request.number} name={name} request={last.request} onDone={load} />}
      {last && !last.end && !last.request && <p class="hint">{words.evaluate.agentWorking}</p>}
      {last?.end && (
        <section class="card end">
          <h3>{last.end === "answer" ? words.evaluate.agentAnswer : words.evaluate.agentEnded(last.end)}</h3>
          <p>{last.end === "answer" ? last.answer : last.reason}</p>
          <p class="hint">{words.evaluate.agentCost(last.tokens ?? 0, number(last.seconds ?? 0, { max: 1 }))}</p>
        </section>
      )}
    </div>
  );
}

export function Agents({ name: selected }: { name?: string }) {
  const [list, setList] = useState<{ folder: string; agents: ListedAgent[] } | null>(null);
  const [error, setError] = useState<unknown>(null);
  useInterval(
    () =>
      void get<{ folder: string; agents: ListedAgent[] }>("/makar/agents").then((found) => {
        setList(found);
        setError(null);
      }, setError),
    pollMilliseconds * 4,
  );
  const name = selected || list?.agents[0]?.name;
  return (
    <>
      <ErrorMessage error={error} />
      {list?.agents.length === 0 && (
        <section class="card empty">
          <h2>{words.evaluate.noAgents}</h2>
          <pre>{words.evaluate.agentCommand(list.folder)}</pre>
        </section>
      )}
      {list && list.agents.length > 0 && (
        <div class="train-body">
          <nav class="runs" aria-label={words.evaluate.agents}>
            <ul>
              {list.agents.map((one) => (
                <li key={one.name} class={one.name === name ? "on" : ""}>
                  <a href={`#/evaluate/agents/${encodeURIComponent(one.name)}`} aria-current={one.name === name ? "true" : undefined}>
                    {one.question.slice(0, 80)}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
          {name && <Trace key={name} name={name} />}
        </div>
      )}
    </>
  );
}
