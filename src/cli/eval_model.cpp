#include "cli/eval_model.h"

#include "base/file.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "eval/engine_model.h"

namespace makar {
namespace {

bool is_url(const std::string& model) {
  return model.starts_with("http://") || model.starts_with("https://");
}

}  // namespace

Result<Json> model_identity(const EvalModelFlags& f) {
  Json out = {{"model", f.model.model}};
  MAKAR_TRY(out["fingerprint"], model_fingerprint(resolve_model(f.model.model)));
  for (const std::string& adapter : f.model.adapters) {
    const std::string folder = path_exists(adapter) ? adapter : adapter.substr(0, adapter.rfind(':'));
    MAKAR_TRY(const std::string fingerprint, model_fingerprint(folder));
    out["adapters"].push_back({{"adapter", adapter}, {"fingerprint", fingerprint}});
  }
  out["device"] = f.model.device;
  if (f.model.bf16) out["activations"] = "bf16";
  out["cache_types"] = {f.engine.cache_type, f.engine.cache_type_k, f.engine.cache_type_v};
  out["context"] = f.engine.context.size;
  return out;
}

void EvalModelFlags::declare_url(Options& options) {
  options.group("Remote model (-m http://HOST:PORT)");
  options.add("--model-name", &url.model, "name of the model on the server", "NAME");
  options.add("--api-key", &url.token, "API key of the server", "KEY");
  options.add("--requests", &url.parallel, "maximum number of requests in flight", "N");
}

Status EvalModelFlags::check() const {
  if (url.parallel < 1 || url.parallel > 1000)
    return error_at("--requests", "must be 1 to 1000, got {}", url.parallel);
  return Done{};
}

int with_engine(EvalModelFlags& f, const std::function<int(Engine&, const LanguageModel&)>& use) {
  if (const auto budget = f.engine.budget(); !budget.ok()) return report(budget.error()), 2;
  const auto opened = open_on_device(f.model, f.engine);
  if (!opened.ok()) return report(opened.error());
  const LanguageModel& language = opened->language;
  if (!language.spec().decoder || !language.has_tokenizer())
    return report(error_of(Error::Kind::kUnsupported, f.model.model,
                           "evaluation needs a causal or sequence-to-sequence model with a tokenizer"));
  auto engine_options = f.engine.resolve(language.model());
  if (engine_options.ok() && f.no_prefix_cache) engine_options->share_prefixes = false;
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  if (engine_options->context.policy == ContextPolicy::kTruncateLeft)
    return report(error_at("--context-policy", "truncate-left drops scored tokens; use error or sinks")), 2;
  Engine engine(language.model(), *opened->device, *engine_options);
  return use(engine, language);
}

int with_eval_model(EvalModelFlags& f, const std::function<int(EvalModel&)>& use) {
  if (is_url(f.model.model)) {
    f.url.url = f.model.model;
    UrlModel model(f.url);
    return use(model);
  }
  return with_engine(f, [&](Engine& engine, const LanguageModel& language) {
    const auto identity = model_identity(f);
    if (!identity.ok()) return report(identity.error());
    EngineModel model(engine, language, *identity);
    return use(model);
  });
}

}  // namespace makar
