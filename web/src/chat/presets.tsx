// Named system prompts, stored in this browser.
import { useState } from "preact/hooks";
import { saveSetting, loadSetting } from "../state";
import { words } from "../strings";
import { IconButton } from "../ui/controls";
import { setSystem, systemPrompt } from "./session";

type Presets = Record<string, string>;

export function PresetPicker() {
  const [presets, setPresets] = useState<Presets>(() => loadSetting<Presets>("presets", {}));
  const [name, setName] = useState("");
  const change = (next: Presets) => {
    saveSetting("presets", next);
    setPresets(next);
  };
  const system = systemPrompt();
  const chosen = Object.keys(presets).find((key) => presets[key] === system) ?? "";
  const names = Object.keys(presets).sort();
  return (
    <div class="presets">
      {names.length > 0 && (
        <div class="row">
          <select
            aria-label={words.settings.preset}
            value={chosen}
            onChange={(e) => e.currentTarget.value in presets && void setSystem(presets[e.currentTarget.value]!)}
          >
            <option value="">{words.settings.presetNone}</option>
            {names.map((key) => (
              <option key={key} value={key}>
                {key}
              </option>
            ))}
          </select>
          {chosen && (
            <IconButton
              icon="trash"
              size={16}
              label={`${words.settings.presetRemove}: ${chosen}`}
              onClick={() => {
                const { [chosen]: _, ...rest } = presets;
                change(rest);
              }}
            />
          )}
        </div>
      )}
      {system.trim() && !chosen && (
        <form
          class="row"
          onSubmit={(e) => {
            e.preventDefault();
            if (!name.trim()) return;
            change({ ...presets, [name.trim()]: system });
            setName("");
          }}
        >
          <input
            aria-label={words.settings.presetName}
            placeholder={words.settings.presetName}
            maxLength={60}
            value={name}
            onInput={(e) => setName(e.currentTarget.value)}
          />
          <button disabled={!name.trim()}>{words.settings.presetSave}</button>
        </form>
      )}
    </div>
  );
}
