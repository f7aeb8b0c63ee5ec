#include "cli/serve_models.h"

#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/resident.h"
#include "base/shown.h"
#include "models/family.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsefulTokens = 2048;  // of a cache, where the context is not smaller

std::string served_name(const std::string& path) {
  const auto clean = fs::path(path).lexically_normal();
  const auto last = clean.has_filename() ? clean.filename() : clean.parent_path().filename();
  const auto name = last.extension() == ".gguf" ? last.stem() : last;
  return name.empty() || name == "." || name == ".." ? "makar" : name.string();
}

int64_t machine_bytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE); }

// "NAME=PATH", or a path that names the model itself. A path may hold a '=' too.
ShelfEntry named(const std::string& choice) {
  const size_t equals = choice.find('=');
  if (equals == choice.npos || is_there(choice)) return {served_name(choice), choice, {}};
  return {choice.substr(0, equals), choice.substr(equals + 1), {}};
}

bool is_model(const fs::path& path) {
  return path.extension() == ".gguf" ? is_file(path.string()) : is_there((path / "config.json").string());
}

// How many labels a model gives to texts, by its configuration alone. One that cannot be read says why when
// it is loaded.
int64_t labels_of(const std::string& path) {
  const auto spec = [&]() -> Result<ModelSpec> {
    MAKAR_TRY(const Config config, Config::read(path));
    MAKAR_TRY(const Family* family, find_family(config));
    return family->read(config);
  }();
  const bool labels =
      spec.ok() && spec->head.kind == HeadKind::kSequenceClass && !(spec->encoder && spec->decoder);
  return labels ? spec->head.labels : 0;
}

Status add_folder(const std::string& folder, std::vector<ShelfEntry>& out) {
  std::error_code failed;
  std::vector<std::string> found;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (is_model(it->path())) found.push_back(it->path().string());
  if (failed) return error_of(Error::Kind::kNotFound, "--models-dir", "{}: {}", folder, failed.message());
  std::sort(found.begin(), found.end());
  for (const std::string& path : found) {
    std::error_code ignored;
    if (!fs::equivalent(path, out.front().path, ignored)) out.push_back({served_name(path), path, {}});
  }
  return Done{};
}

}  // namespace

void ServedModelOptions::declare(Options& options) {
  model.declare(options);
  model.declare_chat(options);
  options.add("-a --alias --served-model-name", &alias,
              "what clients call the model; its folder's name without it", "NAME");
  options.add("--add-model", &others,
              "another model, loaded when a request names it; may be repeated. Its folder's name, or NAME",
              "[NAME=]PATH");
  options.add("--models-dir", &folder, "every model in this folder, loaded when a request names it", "DIR");
  options.add("--models-max", &most, "models loaded at a time; the one used least lately goes first", "N");
  options.add("--lora-modules", &modules,
              "a PEFT adapter of the first model that requests ask for as the model NAME; may be repeated, "
              "and any mix of them shares each step",
              "NAME=DIR");
}

Result<std::vector<ShelfEntry>> ServedModelOptions::entries() const {
  if (most < 1 || most > 1024) return error_at("--models-max", "must be 1 to 1024, got {}", most);
  std::vector<ShelfEntry> out = {{alias.empty() ? served_name(model.model) : alias, model.model, {}}};
  for (const std::string& choice : modules) {
    const size_t equals = choice.find('=');
    if (equals == choice.npos || equals == 0 || equals + 1 == choice.size())
      return error_at("--lora-modules", "expected NAME=FOLDER, got {}", shown(choice));
    out.front().adapters.push_back(choice.substr(0, equals));
  }
  for (const std::string& choice : others) {
    out.push_back(named(choice));
    if (!is_there(out.back().path))
      return error_of(Error::Kind::kNotFound, "--add-model", "{} is not there", shown(out.back().path));
  }
  if (!folder.empty()) MAKAR_CHECK_OK(add_folder(folder, out));
  std::set<std::string> names;
  const auto take = [&](const std::string& name) { return !name.empty() && names.insert(name).second; };
  for (ShelfEntry& entry : out) {
    if (is_there((fs::path(entry.path) / "config.json").string())) entry.labels = labels_of(entry.path);
    if (!take(entry.name))
      return error_at("--add-model", "the name {} is given twice; say NAME=PATH", shown(entry.name));
    for (const std::string& adapter : entry.adapters)
      if (!take(adapter)) return error_at("--lora-modules", "the name {} is given twice", shown(adapter));
  }
  return out;
}

// Several models share the budget: each takes half of what the others leave, so that there is room for one
// more, or all where half is too little to be of use. A model alone takes all.
ModelShelf::Opener ServedModelOptions::opener(ThreadPool& pool, Turns& turns, bool alone) const {
  return [this, &pool, &turns, alone](const ShelfEntry& entry,
                                      int64_t reserved) -> Result<std::shared_ptr<ActiveModel>> {
    ModelOptions own = model;
    if (entry.path != model.model) own.adapters.clear(), own.chat_template.clear();
    own.model = entry.path;
    for (size_t i = 0; i < entry.adapters.size(); ++i)
      own.offered.push_back(modules[i].substr(modules[i].find('=') + 1));
    EngineFlags flags = engine;
    if (flags.mem_budget == 0 && !alone) flags.mem_budget = static_cast<double>(machine_bytes()) / 2e6;
    MAKAR_TRY(MemoryBudget budget, flags.budget());
    if (budget.bytes > 0) budget.bytes = std::max<int64_t>(budget.bytes - reserved, 1);
    ThreadPool loading(static_cast<int>(model.threads));  // the other engines step meanwhile
    MAKAR_TRY(LanguageModel language, open_model(own, loading, budget));
    if (!language.has_tokenizer())
      return error_of(Error::Kind::kNotFound, entry.path, "has no tokenizer; a server needs one");
    const int64_t held = resident_memory().now;
    // Where nobody says how much memory the process may hold: a quarter of the machine's beside the weights.
    if (flags.mem_budget == 0)
      flags.mem_budget = static_cast<double>(held) / 1e6 + static_cast<double>(machine_bytes()) / 4e6;
    const int64_t half = alone ? 0 : std::max<int64_t>(budget.bytes - held, 0) / 2;
    const auto enough = [&](const EngineOptions& o) {
      const int64_t context = context_size(language.spec(), o.context);
      const int64_t wanted = context > 0 ? std::min(context, kUsefulTokens) : kUsefulTokens;
      return o.max_pages == 0 || o.max_pages * KvCache::kPageRows >= wanted;
    };
    auto fitted = flags.resolve(language.model(), 0, reserved + half);
    if (half > 0 && (!fitted.ok() || !enough(*fitted))) fitted = flags.resolve(language.model(), 0, reserved);
    if (!fitted.ok()) return fitted.error();
    EngineOptions options = *fitted;
    if (reserved > 0 && !enough(options))
      return error_of(Error::Kind::kLimit, entry.path, "the other models leave it {} pages",
                      options.max_pages);
    options.max_branches = parallel;
    MAKAR_TRY(const EmbedOptions embed, embed_options(entry.path, language));
    MAKAR_TRY(ServedModel served,
              ServedModel::of(std::move(language), options.context, entry.name, entry.path));
    return std::make_shared<ActiveModel>(std::move(served), embed, pool, options, turns);
  };
}

}  // namespace makar
