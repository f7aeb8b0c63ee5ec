// Ollama's routes: generation, embeddings, list and description of models.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/sha256.h"
#include "base/version.h"
#include "serve/api/fields.h"
#include "serve/routes/embed.h"
#include "serve/routes/generate.h"
#include "serve/routes/handlers.h"

namespace makar::routes {
namespace {

namespace fs = std::filesystem;

struct ModelFiles {
  int64_t bytes = 0, seconds = 0;  // seconds: newest modification time, since 1970
  std::string digest;
};

// A digest of file names, sizes and times: changes with the model, without reading the files.
ModelFiles files_of(const std::string& path) {
  ModelFiles out;
  std::vector<std::string> manifest;
  const auto add = [&](const fs::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) return;
    out.bytes += info.st_size, out.seconds = std::max<int64_t>(out.seconds, info.st_mtim.tv_sec);
    manifest.push_back(fmt::format("{} {} {}.{:09}\n", file.filename().string(), info.st_size,
                                   info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
  };
  std::error_code failed;
  if (fs::is_directory(path, failed))
    for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed)) {
      if (it->is_regular_file(failed)) add(it->path());
    }
  else
    add(path);
  std::sort(manifest.begin(), manifest.end());
  Sha256 hash;
  for (const std::string& line : manifest) hash.add(line);
  out.digest = hash.hex();
  return out;
}

std::string short_count(int64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e9) return fmt::format("{:.1f}B", number / 1e9);
  if (number >= 1e6) return fmt::format("{:.1f}M", number / 1e6);
  return fmt::format("{:.1f}K", number / 1e3);
}

// `language` is null for a model that is not loaded.
Json details_of(const std::string& path, const LanguageModel* language) {
  Json out = {{"parent_model", ""}, {"format", path.ends_with(".gguf") ? "gguf" : "safetensors"}};
  const std::string family = language ? language->spec().family : "";
  out["family"] = family, out["families"] = family.empty() ? Json::array() : Json::array({family});
  out["parameter_size"] = language ? short_count(language->model().parameters().count()) : "";
  out["quantization_level"] = "";
  return out;
}

Json tag_json(const ModelState& state) {
  const ModelFiles files = files_of(state.entry->path);
  return {
      {"name", state.entry->name},
      {"model", state.entry->name},
      {"modified_at", utc(files.seconds)},
      {"size", files.bytes},
      {"digest", files.digest},
      {"details", details_of(state.entry->path, state.active ? &state.active->served.language : nullptr)}};
}

}  // namespace

void ollama_chat(ServeContext& server, Call& call) { generate_answer(server, call, read_ollama_chat); }

void ollama_generate(ServeContext& server, Call& call) {
  generate_answer(server, call, read_ollama_generate);
}

// /api/embed, and its older form /api/embeddings: one "prompt", one "embedding".
void ollama_embed(ServeContext& server, Call& call) {
  const bool legacy = call.request.path == "/api/embeddings";
  if (legacy) {
    const auto prompt = text_field(call.body, "prompt");
    if (!prompt.ok()) return send_error(call, prompt.error());
    call.body["input"] = *prompt;
  }
  embed(server, call,
        [legacy, name = call.model.name](const std::vector<std::vector<float>>& vectors, int64_t tokens) {
          if (legacy) return Json{{"embedding", vectors.at(0)}};
          return Json{{"model", name}, {"embeddings", vectors}, {"prompt_eval_count", tokens}};
        });
}

void ollama_tags(ServeContext& server, Call& call) {
  Json list = Json::array();
  for (const ModelState& state : server.registry.list()) list.push_back(tag_json(state));
  send_json(call, {{"models", std::move(list)}});
}

void ollama_loaded(ServeContext& server, Call& call) {
  Json list = Json::array();
  for (const ModelState& state : server.registry.list()) {
    if (!state.active) continue;
    list.push_back(tag_json(state));
    list.back()["size_vram"] = 0, list.back()["expires_at"] = "9999-12-31T23:59:59Z";
  }
  send_json(call, {{"models", std::move(list)}});
}

void ollama_show(ServeContext& server, Call& call) {
  const ServedModel& model = call.model.served();
  const ModelSpec& spec = model.language.spec();
  const auto& chat = model.language.chat_template();
  Json capabilities = Json::array();
  if (spec.head.kind == HeadKind::kCausalLm) capabilities.push_back("completion");
  if (chat && chat->source().find("tools") != std::string::npos) capabilities.push_back("tools");
  if (spec.reads_images()) capabilities.push_back("vision");
  if (!(spec.encoder && spec.decoder)) capabilities.push_back("embedding");
  const std::string family = spec.family + ".";
  send_json(call, {{"modelfile", "FROM " + model.name + "\n"},
                   {"parameters", ""},
                   {"template", chat ? chat->source() : ""},
                   {"modified_at", utc(files_of(model.path).seconds)},
                   {"details", details_of(model.path, &model.language)},
                   {"model_info",
                    {{"general.architecture", spec.family},
                     {"general.parameter_count", model.language.model().parameters().count()},
                     {family + "context_length", model.context_limit()},
                     {family + "vocab_size", spec.vocab}}},
                   {"capabilities", std::move(capabilities)}});
}

void ollama_version(ServeContext& server, Call& call) { send_json(call, {{"version", kMakarVersion}}); }

}  // namespace makar::routes
