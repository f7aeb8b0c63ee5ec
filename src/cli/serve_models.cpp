#include "cli/serve_models.h"

#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/quote.h"
#include "base/resident.h"
#include "cli/index_options.h"
#include "cli/model_path.h"
#include "database/postgres.h"
#include "kernels/cpu_device.h"
#include "models/family.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMinCacheTokens = 2048;  // the smallest useful cache, unless the context is smaller

// "NAME=PATH", or only a path, whose last component is the name. A path may contain '=' too.
ModelEntry parse_model_choice(const std::string& choice) {
  const size_t equals = choice.find('=');
  if (equals == choice.npos || path_exists(choice)) return {model_name(choice), choice, {}};
  return {choice.substr(0, equals), choice.substr(equals + 1), {}};
}

bool is_model(const fs::path& path) {
  return path.extension() == ".gguf" ? is_file(path.string()) : path_exists((path / "config.json").string());
}

// Reads from the configuration, without loading the model, its number of classes and whether it
// generates text. Errors in the configuration are reported when the model is loaded.
void read_kind(ModelEntry& entry) {
  const auto spec = [&]() -> Result<ModelSpec> {
    MAKAR_TRY(const Config config, Config::read(entry.path));
    MAKAR_TRY(const Family* family, find_family(config));
    return family->read(config);
  }();
  if (!spec.ok()) return;
  const bool labels = spec->head.kind == HeadKind::kSequenceClass && !(spec->encoder && spec->decoder);
  entry.labels = labels ? spec->head.labels : 0;
  entry.generates = spec->head.kind == HeadKind::kCausalLm;
}

Status add_folder(const std::string& folder, std::vector<ModelEntry>& out) {
  std::error_code code;
  std::vector<std::string> paths;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    if (is_model(it->path())) paths.push_back(it->path().string());
  if (code) return error_of(Error::Kind::kNotFound, "--models-dir", "{}: {}", folder, code.message());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::equivalent(path, out.front().path, ignored)) out.push_back({model_name(path), path, {}});
  }
  return Done{};
}

}  // namespace

void ServedModelOptions::declare(Options& options) {
  model.declare_optional(options, "MODEL");
  model.declare_chat(options);
  options.add("-a --alias --served-model-name", &alias,
              "name of the model in requests; its folder's name if not set", "NAME");
  options.add("--add-model", &others,
              "another model, loaded when a request names it; may be repeated; the folder's name if there is "
              "no NAME",
              "[NAME=]PATH");
  options.add("--models-dir", &folder, "serve every model in this folder, loaded when a request names it",
              "DIR");
  options.add("--models-max", &max_loaded,
              "maximum number of loaded models; the least recently used is unloaded", "N");
  options.add("--lora-modules", &modules,
              "PEFT adapter of the first model that requests select as model NAME; may be repeated",
              "NAME=DIR");
  options.add("--index", &indexes,
              "answer from this index as model NAME, with sources; may be repeated; the file's name if there "
              "is no NAME",
              "[NAME=]FILE[#COLLECTION]");
  options.add("--index-passages", &passages, "with --index: passages per question", "N");
  options.add("--min-relevance", &min_relevance,
              "with --index: use only passages that have at least this share of the question's terms, or "
              "this cosine",
              "X");
}

Result<std::vector<ModelEntry>> ServedModelOptions::entries() const {
  if (max_loaded < 1 || max_loaded > 1024)
    return error_at("--models-max", "must be 1 to 1024, got {}", max_loaded);
  const std::string first = resolve_model(model.model);
  std::vector<ModelEntry> out = {{alias.empty() ? model_name(model.model) : alias, first, {}}};
  for (const std::string& choice : modules) {
    const size_t equals = choice.find('=');
    if (equals == choice.npos || equals == 0 || equals + 1 == choice.size())
      return error_at("--lora-modules", "expected NAME=FOLDER, got {}", quote(choice));
    out.front().adapters.push_back(choice.substr(0, equals));
  }
  for (const std::string& choice : others) {
    out.push_back(parse_model_choice(choice));
    if (!path_exists(out.back().path))
      return error_of(Error::Kind::kNotFound, "--add-model", "{} does not exist", quote(out.back().path));
  }
  if (!folder.empty()) MAKAR_RETURN_IF_ERROR(add_folder(folder, out));
  std::set<std::string> names;
  const auto add_name = [&](const std::string& name) { return !name.empty() && names.insert(name).second; };
  for (ModelEntry& entry : out) {
    if (path_exists((fs::path(entry.path) / "config.json").string())) read_kind(entry);
    if (!add_name(entry.name))
      return error_at("--add-model", "the name {} is given twice; choose another with NAME=PATH",
                      quote(entry.name));
    for (const std::string& adapter : entry.adapters)
      if (!add_name(adapter)) return error_at("--lora-modules", "the name {} is given twice", quote(adapter));
  }
  return out;
}

Result<std::vector<std::shared_ptr<ServedCollection>>> ServedModelOptions::collections(
    const std::vector<ModelEntry>& entries) const {
  if (passages < 1 || passages > 1000)
    return error_at("--index-passages", "must be 1 to 1000, got {}", passages);
  if (!(min_relevance >= 0 && min_relevance <= 1))
    return error_at("--min-relevance", "must be from 0 to 1, got {}", min_relevance);
  std::set<std::string> names;
  for (const ModelEntry& entry : entries) {
    names.insert(entry.name);
    names.insert(entry.adapters.begin(), entry.adapters.end());
  }
  std::vector<std::shared_ptr<ServedCollection>> out;
  for (const std::string& choice : indexes) {
    const bool without_name = path_exists(choice) || is_postgres_address(choice);
    const size_t equals = without_name ? choice.npos : choice.find('=');
    std::string path = equals == choice.npos ? choice : choice.substr(equals + 1);
    std::string collection_name = kDefaultCollection;
    if (const size_t hash = path.rfind('#'); !path_exists(path) && hash != path.npos)
      collection_name = path.substr(hash + 1), path.resize(hash);
    MAKAR_TRY(const IndexStore store, IndexStore::open(path, false));
    MAKAR_TRY(const CollectionInfo info, store.collection(collection_name));
    const std::string name = equals == choice.npos ? fs::path(path.substr(0, path.find('?'))).stem().string()
                                                   : choice.substr(0, equals);
    if (name.empty() || !names.insert(name).second)
      return error_at("--index", "the name {} is empty or given twice; choose another with NAME=FILE",
                      quote(name));
    SearchFlags flags;
    flags.k = passages;
    MAKAR_RETURN_IF_ERROR(flags.check());
    AskOptions ask;
    ask.min_relevance = min_relevance;
    out.push_back(std::make_shared<ServedCollection>(
        name, path, ask, [flags, path, collection_name, threads = model.threads]() mutable {
          return flags.open(path, collection_name, "cpu", threads);
        }));
  }
  return out;
}

int64_t ServedModelOptions::request_memory() const {
  if (engine.mem_budget == 0) return std::min(int64_t{1} << 30, memory_limit() / 8);
  return static_cast<int64_t>(engine.mem_budget * 1e6) / 6;
}

// Several models share the memory budget: each takes half of what the others leave, so that one more fits, or
// all of it if half is too little. A single model takes the whole budget.
ModelRegistry::Opener ServedModelOptions::opener(Device& device, Turns& turns, bool single_model) const {
  return [this, &device, &turns, single_model](const ModelEntry& entry,
                                               int64_t reserved) -> Result<std::shared_ptr<ActiveModel>> {
    ModelOptions model_options = model;
    if (entry.path != resolve_model(model.model))
      model_options.adapters.clear(), model_options.chat_template.clear();
    if (!entry.adapter_folder.empty()) model_options.adapters.push_back(entry.adapter_folder);
    model_options.model = entry.path;
    for (size_t i = 0; i < entry.adapters.size(); ++i)
      model_options.offered.push_back(modules[i].substr(modules[i].find('=') + 1));
    EngineFlags flags = engine;
    if (flags.mem_budget == 0 && !single_model) flags.mem_budget = static_cast<double>(memory_limit()) / 2e6;
    MAKAR_TRY(MemoryBudget budget, flags.budget());
    if (budget.bytes > 0) budget.bytes = std::max<int64_t>(budget.bytes - reserved, 1);
    // On the CPU, a separate device loads the model while the engines of other models keep running. On a
    // GPU, loading takes a turn like a step.
    const bool on_host = device.memory().is_host();
    std::optional<Turns::Turn> turn;
    std::unique_ptr<Device> loading_device;
    if (on_host)
      loading_device = std::make_unique<CpuDevice>(static_cast<int>(model.threads));
    else
      turn.emplace(turns);
    MAKAR_TRY(LanguageModel language, open_model(model_options, on_host ? *loading_device : device, budget));
    if (!language.has_tokenizer())
      return error_of(Error::Kind::kNotFound, entry.path, "has no tokenizer, which serving needs");
    SpeculationOptions drafts;
    if (entry.path == resolve_model(model.model) && entry.adapter_folder.empty()) {
      drafts = speculation;
      MAKAR_RETURN_IF_ERROR(drafts.open(language, device, budget));
    }
    const int64_t resident = resident_memory().now;
    // Without --mem-budget: the weights and a quarter of the machine's memory.
    if (flags.mem_budget == 0)
      flags.mem_budget = static_cast<double>(resident) / 1e6 + static_cast<double>(memory_limit()) / 4e6;
    // Requests in flight and, with half as much, bodies that are still being received.
    const int64_t requests = engine.mem_budget == 0 ? 0 : request_memory() * 3 / 2;
    const int64_t left_for_others = single_model ? 0 : std::max<int64_t>(budget.bytes - resident, 0) / 2;
    const auto enough = [&](const EngineOptions& o) {
      const int64_t context = context_size(language.spec(), o.context);
      const int64_t needed_tokens = context > 0 ? std::min(context, kMinCacheTokens) : kMinCacheTokens;
      return o.max_pages == 0 || o.max_pages * KvCache::kPageRows >= needed_tokens;
    };
    const int64_t draft_page = drafts.cache_page_bytes();
    auto resolved = flags.resolve(language.model(), draft_page, reserved + requests + left_for_others);
    if (left_for_others > 0 && (!resolved.ok() || !enough(*resolved)))
      resolved = flags.resolve(language.model(), draft_page, reserved + requests);
    if (!resolved.ok()) return resolved.error();
    EngineOptions options = *resolved;
    if (reserved > 0 && !enough(options))
      return error_of(Error::Kind::kLimit, entry.path,
                      "the other models leave memory for only {} cache pages", options.max_pages);
    options.max_branches = parallel;
    MAKAR_TRY(const EmbedOptions embed, embed_options(entry.path, language));
    MAKAR_TRY(ServedModel served,
              ServedModel::of(std::move(language), options.context, entry.name, entry.path));
    served.speculation = drafts.speculation;
    return std::make_shared<ActiveModel>(std::move(served), embed, device, options, turns);
  };
}

}  // namespace makar
