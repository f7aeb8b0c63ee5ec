#include "cli/with_engine.h"

#include "cli/run.h"

namespace makar {

int with_engine(const ModelOptions& model, GenerationFlags& flags, Device& device, const EngineUse& use) {
  const auto budget = flags.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const auto language = open_model(model, device, *budget);
  if (!language.ok()) return report(language.error());
  if (!language->spec().continues_text() || !language->has_tokenizer())
    return report(error_of(Error::Kind::kUnsupported, model.model,
                           "expected a decoder-only language model with a tokenizer"));
  if (const Status ready = flags.prepare(*language, device); !ready.ok()) return report(ready.error());
  const auto engine_options = flags.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error());
  Engine engine(language->model(), device, *engine_options);
  return use(engine, *language);
}

int with_engine(const ModelOptions& model, GenerationFlags& flags, const EngineUse& use) {
  const auto device = model.open_device();
  return device.ok() ? with_engine(model, flags, **device, use) : report(device.error());
}

}  // namespace makar
