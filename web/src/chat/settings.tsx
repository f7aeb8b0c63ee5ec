// The system prompt and the sampling settings of a conversation, each with what it does.
import { useWatched } from "../state";
import { words } from "../strings";
import type { Sampling } from "../types";
import { IconButton, Slider } from "../ui/controls";
import { PresetPicker } from "./presets";
import { defaults, sampling, session, setSampling, setSystem, systemPrompt } from "./session";

const ranges: Record<keyof Sampling, [min: number, max: number, step: number]> = {
  n: [1, 4, 1],
  temperature: [0, 2, 0.05],
  top_p: [0.05, 1, 0.01],
  top_k: [0, 200, 1],
  min_p: [0, 0.5, 0.01],
  repetition_penalty: [1, 2, 0.01],
  max_tokens: [16, 8192, 16],
  seed: [-1, 9999, 1],
};

export function SettingsPanel({ onClose }: { onClose: () => void }) {
  const { open } = useWatched(session);
  const values = sampling();
  return (
    <aside
      class="settings"
      aria-label={words.settings.title}
      onKeyDown={(e) => e.key === "Escape" && (e.preventDefault(), onClose())}
    >
      <header>
        <h2>{words.settings.title}</h2>
        <IconButton icon="close" label={words.close} onClick={onClose} />
      </header>
      <p class="hint">{open ? words.settings.scope : words.settings.scopeNew}</p>
      <label for="system">{words.settings.system}</label>
      <textarea
        id="system"
        rows={4}
        dir="auto"
        aria-describedby="system-hint"
        value={systemPrompt()}
        onChange={(e) => void setSystem(e.currentTarget.value)}
      />
      <p class="hint" id="system-hint">
        {words.settings.systemHint}
      </p>
      <PresetPicker />
      {(Object.keys(ranges) as (keyof Sampling)[]).map((name) => {
        const [min, max, step] = ranges[name];
        const [label, hint] = words.settings.knobs[name]!;
        return (
          <Slider
            key={name}
            id={`knob-${name}`}
            {...{ label, hint, min, max, step }}
            value={values[name]}
            onInput={(value) => setSampling({ [name]: value })}
          />
        );
      })}
      <button type="button" onClick={() => setSampling(defaults)}>
        {words.settings.reset}
      </button>
      <h3>{words.settings.shortcuts}</h3>
      <dl class="shortcuts">
        {words.settings.shortcutList.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </aside>
  );
}
